"""Pre-training from the weights of a preset (domain-adaptive pre-training, arXiv 2004.10964)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path

from bert_tf.config import BertConfig, ConfigError
from bert_tf.data.manifest import Manifest
from bert_tf.data.schema import NSP_LOGITS
from bert_tf.models import BertBackbone, BertPretrainer
from bert_tf.models.preset_sources import PresetSource, open_preset
from bert_tf.models.presets import encoder_of
from bert_tf.models.weights import copy_weights

logger = logging.getLogger(__name__)

# Fields that may differ from the preset's: positions are repeated or cut, or rotary ones get another base for longer
# inputs; a pooler is added or omitted.
_FREE = ("dropout", "attention_dropout", "max_sequence_length", "pooler", "rotary_theta", "local_rotary_theta")
_POSITIONS = "embeddings/position_embedding"


@dataclass(frozen=True)
class InitialWeights:
    """Initial weights of a run, read when the run's model is built, because reading initializes the devices."""

    source: PresetSource

    @classmethod
    def of(cls, directory: str | Path) -> InitialWeights:
        """Reads a preset of any source (see `load_preset`) without its weights. Raises ConfigError if it is missing."""
        return cls(open_preset(directory))

    @property
    def config(self) -> BertConfig:
        """Architecture of continued pre-training: the preset's, with a pooler."""
        return replace(self.source.header.config, pooler=True)

    def identity(self) -> dict[str, str]:
        """Returns the identity of the weights for checkpoints and presets of the run."""
        return {"init": self.source.weights.sha256()}

    def check(self, model: BertConfig, data: Iterable[tuple[Path, Manifest]]) -> None:
        """Raises ConfigError if the run's model does not match these weights, or ValueError if its data does not."""
        # Another body has other values of many fields.
        for field in sorted(fields(model), key=lambda field: field.name != "body"):
            value, expected = getattr(model, field.name), getattr(self.config, field.name)
            if value != expected and field.name not in _FREE:
                raise ConfigError(
                    f"`model.{field.name}` must be that of the preset {self.source.path}, {expected}. Received: {value}"
                )
        for folder, manifest in data:
            text = manifest.vocabulary_sha256, manifest.config.lowercase
            wanted = self.source.vocabulary.fingerprint, self.source.header.lowercase
            if text != wanted:
                raise ValueError(
                    f"{folder}: vocabulary and `lowercase` must be those of the preset {self.source.path}, "
                    f"{wanted[0]} and {wanted[1]}. Received: {text[0]} and {text[1]}"
                )

    def model(self, config: BertConfig, next_sentence: bool = True) -> BertPretrainer:
        """Returns a new model for pre-training with these weights; heads that the preset lacks are new.

        Without next sentence prediction, that head and the pooler of the preset are omitted: nothing trains them, and
        the encoder below them changes.

        For more positions than the preset's, its position embeddings are repeated from the first on: local attention
        patterns then work at once (arXiv 2004.05150, section 5).
        """
        model = BertPretrainer(BertBackbone(config), next_sentence=next_sentence)
        source = self.source.model("float32")
        self.source.announce(source)
        heads = {name: getattr(source, name, False) for name in ("masked_lm", "next_sentence")}
        has = {"pooler": self.source.header.config.pooler, **heads}
        wants = {"pooler": config.pooler, "masked_lm": True, "next_sentence": next_sentence}
        if any(heads.values()):
            copy_weights(source, model, repeated=_POSITIONS, optional=("pooler", NSP_LOGITS))
        else:
            copy_weights(encoder_of(source), model.backbone, repeated=_POSITIONS)
        for part in (name for name, present in has.items() if wants[name] and not present):
            logger.warning("%s has no `%s`: it starts with random weights", self.source.path, part)
        for part in (name for name, present in has.items() if present and not wants[name]):
            logger.warning(
                "%s: `%s` is omitted from the new preset, because no next sentence prediction trains it",
                self.source.path, part,
            )  # fmt: skip
        return model

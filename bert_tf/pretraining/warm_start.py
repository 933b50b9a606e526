"""Pre-training from the weights of a preset (domain-adaptive pre-training, arXiv 2004.10964)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path

from bert_tf.config import BertConfig, ConfigError
from bert_tf.config.files import sha256_of
from bert_tf.data.manifest import Manifest
from bert_tf.data.schema import NSP_LOGITS
from bert_tf.models import BertBackbone, BertPretrainer, load_preset
from bert_tf.models.presets import WEIGHTS_NAME, PresetHeader, encoder_of, preset_directory, read_header
from bert_tf.models.weights import copy_weights
from bert_tf.text.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

# Fields that may differ from the preset's: positions are repeated or cut, a pooler is added or omitted.
_FREE = ("dropout", "attention_dropout", "max_sequence_length", "pooler")
_POSITIONS = "embeddings/position_embedding"


@dataclass(frozen=True)
class InitialWeights:
    """Initial weights of a run, read when the run's model is built, because reading initializes the devices."""

    directory: Path
    header: PresetHeader
    vocabulary: Vocabulary

    @classmethod
    def of(cls, directory: str | Path) -> InitialWeights:
        """Reads the header of a preset, or of a run's preset, without weights. Raises ConfigError if it is missing."""
        header, vocabulary, *_ = read_header(preset_directory(directory))
        return cls(preset_directory(directory), header, vocabulary)

    @property
    def config(self) -> BertConfig:
        """Architecture of continued pre-training: the preset's, with a pooler."""
        return replace(self.header.config, pooler=True)

    def identity(self) -> dict[str, str]:
        """Returns the identity of the weights for checkpoints and presets of the run."""
        return {"init": sha256_of(self.directory / WEIGHTS_NAME)}

    def check(self, model: BertConfig, data: Iterable[tuple[Path, Manifest]]) -> None:
        """Raises ConfigError if the run's model does not match these weights, or ValueError if its data does not."""
        for field in fields(model):
            value, expected = getattr(model, field.name), getattr(self.config, field.name)
            if value != expected and field.name not in _FREE:
                raise ConfigError(
                    f"`model.{field.name}` must be that of the preset {self.directory}, {expected}. Received: {value}"
                )
        for folder, manifest in data:
            text = manifest.vocabulary_sha256, manifest.config.lowercase
            if text != (self.vocabulary.fingerprint, self.header.lowercase):
                raise ValueError(
                    f"{folder}: vocabulary and `lowercase` must be those of the preset {self.directory}, "
                    f"{self.vocabulary.fingerprint} and {self.header.lowercase}. Received: {text[0]} and {text[1]}"
                )

    def model(self, config: BertConfig, next_sentence: bool = True) -> BertPretrainer:
        """Returns a new model for pre-training with these weights; heads that the preset lacks are new.

        Without next sentence prediction, that head and the pooler of the preset are omitted: nothing trains them, and
        the encoder below them changes.

        For more positions than the preset's, its position embeddings are repeated from the first on: local attention
        patterns then work at once (arXiv 2004.05150, section 5).
        """
        model = BertPretrainer(BertBackbone(config), next_sentence=next_sentence)
        source = load_preset(self.directory, "float32").model
        heads = {name: getattr(source, name, False) for name in ("masked_lm", "next_sentence")}
        has = {"pooler": self.header.config.pooler, **heads}
        wants = {"pooler": config.pooler, "masked_lm": True, "next_sentence": next_sentence}
        if any(heads.values()):
            copy_weights(source, model, repeated=_POSITIONS, optional=("pooler", NSP_LOGITS))
        else:
            copy_weights(encoder_of(source), model.backbone, repeated=_POSITIONS)
        for part in (name for name, present in has.items() if wants[name] and not present):
            logger.warning("%s has no `%s`: it starts with random weights", self.directory, part)
        for part in (name for name, present in has.items() if present and not wants[name]):
            logger.warning(
                "%s: `%s` is omitted from the new preset, because the data has no sentence pairs to train it on",
                self.directory, part,
            )  # fmt: skip
        return model

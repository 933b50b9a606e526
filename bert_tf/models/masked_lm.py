"""BERT encoder with the head of the masked language model.

Shape legend: B batch, S sequence, P predictions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import keras
import numpy as np

from bert_tf.config import ConfigError
from bert_tf.data.schema import MASK_POSITIONS
from bert_tf.models import presets
from bert_tf.models.backbone import BertBackbone
from bert_tf.models.pretrainer import BertPretrainer, masked_lm_head
from bert_tf.models.task_model import TextTaskModel
from bert_tf.models.weights import copy_weights


@keras.saving.register_keras_serializable(package="bert_tf")
class BertMaskedLM(TextTaskModel):
    """Masked language model (arXiv 1810.04805, section 3.1), which `fit` trains on texts with new masks in each epoch.

    It continues the pre-training of an encoder on other texts. `save_to_preset` writes a preset of a `BertPretrainer`
    without next sentence prediction.

    Args:
        backbone: the encoder; the head takes its dtype policy.
        name: model name.
        **kwargs: arguments of `keras.Model`, such as `trainable`, and `preprocessor`.

    Call arguments:
        inputs: dictionary of the encoder's inputs and `mask_positions` (B, P) int32 in [0, S).

    Returns:
        Logits, (B, P, V) float32.

    Raises:
        ConfigError: for an encoder with left-to-right attention, which is pre-trained to predict next tokens.

    Example:
        >>> model = bert_tf.BertMaskedLM.from_preset("runs/laptop")
        >>> history = model.fit(["a good film", "a dull story", "we saw the old film"], epochs=2, verbose=0)
        >>> [[len(tokens) for tokens in masks] for masks in model.fill_mask(["a [MASK] film"], top=3)]
        [[3]]
    """

    objective: ClassVar[str] = "masked_lm"

    def __init__(self, backbone: BertBackbone, name: str = "bert_masked_lm", **kwargs: Any) -> None:
        if backbone.config.objective != "mlm":
            raise ConfigError(
                f"a {type(self).__name__} needs an encoder with `attention` = bidirectional. Received: left_to_right, "
                "whose language model predicts next tokens and fills no masks. Train it with `bert-tf pretrain --init`."
            )
        positions = keras.Input(shape=(None,), dtype="int32", name=MASK_POSITIONS)
        outputs = masked_lm_head(backbone)(backbone(backbone.input)["sequence_output"], positions)
        super().__init__(backbone, backbone.input | {MASK_POSITIONS: positions}, outputs, {}, name, **kwargs)

    @classmethod
    def preprocessor_class(cls) -> Any:
        """Returns the class of the preprocessor, which needs TensorFlow."""
        from bert_tf.models.preprocessors.masked_lm import BertMaskedLMPreprocessor

        return BertMaskedLMPreprocessor

    def fill_mask(self, x: Any, top: int = 5) -> list[list[list[tuple[str, float]]]]:
        """Returns the most probable tokens at each `[MASK]`.

        Args:
            x: texts with the literal `[MASK]`, as documented for `BertMaskedLMPreprocessor`.
            top: number of tokens.

        Returns:
            For each text and each of its masks, tokens with their probabilities, most probable first.

        Raises:
            ConfigError: if the model has no preprocessor, or a text has no mask.
        """
        vocabulary = self.required_preprocessor().tokenizer.vocabulary
        rows = self.preprocessor.encode(x)
        is_mask = rows.token_ids == vocabulary.mask_id
        counts = np.add.reduceat(is_mask, rows.row_splits[:-1], dtype=np.int64)
        if not counts.all():
            raise ConfigError(f"each text must contain [MASK]. Received: row {int(counts.argmin())} without it")
        logits = self.predict(x, verbose=0)
        exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
        probabilities = exponentials / exponentials.sum(axis=-1, keepdims=True)
        best = np.argsort(-logits, axis=-1, kind="stable")[..., :top]
        return [
            [
                [(vocabulary.tokens[token], float(probabilities[row, mask, token])) for token in best[row, mask]]
                for mask in range(count)
            ]
            for row, count in enumerate(counts)
        ]

    @classmethod
    def _kept(cls, preset: presets.Preset, arguments: Mapping[str, Any]) -> Self | None:
        """Returns a model with the head of a preset that has a masked language model; None for other presets."""
        if not isinstance(preset.model, BertPretrainer) or not preset.model.masked_lm:
            return None
        model = cls._on_encoder(preset, arguments)
        copy_weights(preset.model, model, optional=("pooler", "nsp_logits"))
        return model

    def _stored(self) -> keras.Model:
        pretrainer = BertPretrainer(self.backbone, next_sentence=False)
        copy_weights(self, pretrainer)
        return pretrainer

"""Export precisions: the dtypes of weights and of computation."""

from __future__ import annotations

from pathlib import Path

from bert_tf.export.verify.tolerances import BFLOAT16, FLOAT32, INT8
from bert_tf.layers.inference import arrange_for_inference, quantize_weights
from bert_tf.models import Preset, load_preset

PRECISIONS = (FLOAT32, BFLOAT16, INT8)


def load_in_precision(preset_dir: str | Path, precision: str, *, arranged: bool = False) -> Preset:
    """Loads a preset of any kind in a precision; `arranged` for inference (`layers.inference`), as in exports.

    | precision | weights | computation |
    |---|---|---|
    | float32 | float32 | float32 |
    | bfloat16 | bfloat16 | bfloat16; softmax, normalization and the logits of heads float32 |
    | int8 | kernels and the token table int8, a scale for each output or token; the rest float32 | float32 |

    Raises ValueError for an unknown precision or an unreadable preset.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"`precision` must be one of {', '.join(PRECISIONS)}. Received: {precision!r}")
    preset = load_preset(preset_dir, dtype=BFLOAT16 if precision == BFLOAT16 else FLOAT32)
    if arranged:
        arrange_for_inference(preset.model)
    if precision == INT8:
        quantize_weights(preset.model)
    return preset

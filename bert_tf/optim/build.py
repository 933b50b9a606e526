"""Construction of the optimizer: rates by step and layer, weight decay exclusions, clipping, loss scaling."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import keras
from keras import ops

from bert_tf.config import TrainingConfig
from bert_tf.layers.computation import has_accelerator
from bert_tf.optim.muon import Muon
from bert_tf.optim.optimizers import AdamW, Lamb, LossScaleOptimizer
from bert_tf.optim.schedules import make_schedule

OPTIMIZERS: dict[str, type[AdamW]] = {"adamw": AdamW, "lamb": Lamb, "muon": Muon}

# Patterns of variable paths in the encoder.
_LAYER = re.compile(r"(?:^|/)layer_(\d+)/")
_EMBEDDINGS = re.compile(r"(?:^|/)embeddings/")
# Kernels of attention and feed-forward; the kernel of `attention_output` is (N, D, H).
_MATRIX = re.compile(
    rf"{_LAYER.pattern}(?:.*/)?"
    r"(query|key|value|attention_output|feedforward_intermediate_dense|feedforward_output_dense)/kernel$"
)


def is_decayed(variable: keras.Variable) -> bool:
    """Returns True if weight decay applies: to all variables except biases and layer normalization."""
    name = variable.path.rsplit("/", 1)[-1]
    return not (name.endswith("bias") or name in ("gamma", "beta"))


def matrix_axes(variable: keras.Variable) -> int:
    """Returns the number of leading axes that belong to the input of a hidden matrix; 0 for any other variable.

    Hidden matrices are the kernels of attention and feed-forward in the encoder, which Muon trains. Embeddings, the
    pooler and the heads are none.
    """
    match = _MATRIX.search(variable.path)
    return 0 if match is None else 2 if match[2] == "attention_output" else 1


def layer_rates(variables: list[keras.Variable], decay: float) -> list[float]:
    """Returns a factor of the learning rate for each variable, lower the nearer it is to the input.

    With L layers and a decay in (0, 1], variables above the encoder have the factor 1, layer i of 1 to L `decay ** (L +
    1 - i)`, the embeddings `decay ** (L + 1)` (arXiv 2003.10555, section 3.2, table 6).
    """
    layers = [_LAYER.search(variable.path) for variable in variables]
    top = 1 + max((int(layer[1]) for layer in layers if layer), default=0)
    rates = []
    for variable, layer in zip(variables, layers, strict=True):
        height = int(layer[1]) if layer else 0 if _EMBEDDINGS.search(variable.path) else top
        rates.append(decay ** (top - height))
    return rates


def make_optimizer(
    config: TrainingConfig, total_steps: int, variables: list[keras.Variable]
) -> keras.optimizers.Optimizer:
    """Builds the optimizer of a run and its state; the schedule ends after all steps, `float16` adds loss scaling."""
    rates = layer_rates(variables, config.layer_decay)
    options: dict[str, Any] = {}
    if config.optimizer == "muon":
        axes = [matrix_axes(variable) for variable in variables]
        rates = [rate * config.matrix_rate_scale if axis else rate for rate, axis in zip(rates, axes, strict=True)]
        options = {
            "matrix_axes": axes,
            "momentum": config.matrix_momentum,
            "newton_schulz_steps": config.newton_schulz_steps,
            "matrix_scale": config.matrix_scale,
            "iteration_dtype": "bfloat16" if has_accelerator() else "float32",
        }
    optimizer: keras.optimizers.Optimizer = OPTIMIZERS[config.optimizer](
        learning_rate=make_schedule(config, total_steps),
        weight_decay=config.weight_decay,
        beta_1=config.adam_beta_1,
        beta_2=config.adam_beta_2,
        epsilon=config.adam_epsilon,
        global_clipnorm=config.clip_norm or None,
        bias_correction=config.bias_correction,
        epsilon_form=config.adam_epsilon_form,
        use_ema=config.average > 0,
        ema_momentum=config.average or None,
        rate_scales=rates if set(rates) != {1.0} else None,
        **options,
    )
    optimizer.exclude_from_weight_decay(var_list=[v for v in variables if not is_decayed(v)])
    if config.precision == "float16":
        optimizer = LossScaleOptimizer(optimizer)
    optimizer.build(variables)
    return optimizer


@contextlib.contextmanager
def averaged_weights(optimizer: keras.optimizers.Optimizer, variables: list[keras.Variable]) -> Iterator[None]:
    """Replaces the optimizer's `variables` by their moving averages in its block, if it keeps any."""
    if not _inner(optimizer).use_ema:
        yield
        return
    former = [ops.convert_to_numpy(variable) for variable in variables]
    keep_averages(optimizer, variables)
    try:
        yield
    finally:
        for variable, value in zip(variables, former, strict=True):
            variable.assign(value)


def keep_averages(optimizer: keras.optimizers.Optimizer, variables: list[keras.Variable]) -> None:
    """Replaces the optimizer's `variables` by their moving averages, if it keeps any."""
    _inner(optimizer).overwrite_with_averages(variables)


def averages(optimizer: keras.optimizers.Optimizer, variables: list[keras.Variable]) -> dict[str, keras.Variable]:
    """Returns the moving averages of the optimizer's `variables` by their path; empty if it keeps none."""
    inner = _inner(optimizer)
    if not inner.use_ema:
        return {}
    kept = inner._model_variables_moving_average
    return {variable.path: average for variable, average in zip(variables, kept, strict=True)}


def set_halved(optimizer: keras.optimizers.Optimizer, steps: Sequence[int]) -> None:
    """Halves the learning rate after each of these numbers of finished steps, in functions traced from now on."""
    _inner(optimizer)._learning_rate.halved = tuple(steps)


def last_rate(optimizer: keras.optimizers.Optimizer) -> float:
    """Returns the learning rate of the last step, which the optimizer has already counted."""
    inner = _inner(optimizer)
    return float(inner._learning_rate(ops.maximum(inner.iterations - 1, 0)))


def _inner(optimizer: keras.optimizers.Optimizer) -> keras.optimizers.Optimizer:
    """Returns the optimizer without its loss scaling wrapper."""
    return getattr(optimizer, "inner_optimizer", optimizer)

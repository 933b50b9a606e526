"""Attention kernels and rematerialization on any backend, compared with the plain computation.

    KERAS_BACKEND=jax python -m tests.support.layers.computation

The last line of stdout is JSON: the largest differences, and on JAX the number of layers that are computed again.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from bert_tf.config import BertConfig
from bert_tf.data.schema import (
    EXAMPLE_IDS,
    FIRST_POSITIONS,
    PADDING_MASK,
    POSITION_IDS,
    SEGMENT_IDS,
    TOKEN_IDS,
)
from bert_tf.layers.computation import set_computation
from bert_tf.models import BertBackbone
from tests.support.layers.short_parts import short_parts

SHAPE = (4, 16)


def build(dropout: float = 0.0, attention: str = "bidirectional", body: str = "bert") -> BertBackbone:
    """Builds an encoder whose attention scores have the size of those of trained encoders, up to about 10."""
    keras.utils.set_random_seed(1)
    config = BertConfig(
        100, hidden_dim=32, num_layers=2, num_heads=4, intermediate_dim=64, max_sequence_length=SHAPE[1], pooler=False,
        dropout=dropout, attention=attention, initializer_range=0.3, body=body, global_attention_every=2,
        local_attention=6,
    )  # fmt: skip
    return BertBackbone(config)


def padded() -> dict[str, np.ndarray]:
    """Returns rows of 1 to 16 tokens."""
    random = np.random.default_rng(2)
    mask = (np.arange(SHAPE[1]) < np.array([16, 9, 4, 1])[:, None]).astype(np.int32)
    ids = random.integers(5, 100, SHAPE).astype(np.int32) * mask
    return {TOKEN_IDS: ids, SEGMENT_IDS: 0 * ids, PADDING_MASK: mask}


def packed() -> dict[str, np.ndarray]:
    """Returns rows of two examples of 7 and 5 tokens, and padding."""
    examples = np.array([1] * 7 + [2] * 5 + [0] * 4, np.int32) * np.ones(SHAPE, np.int32)
    positions = np.array([*range(7), *range(5), *[0] * 4], np.int32) * np.ones(SHAPE, np.int32)
    ids = np.random.default_rng(3).integers(5, 100, SHAPE).astype(np.int32) * (examples > 0)
    return {
        TOKEN_IDS: ids,
        SEGMENT_IDS: 0 * ids,
        PADDING_MASK: (examples > 0).astype(np.int32),
        EXAMPLE_IDS: examples,
        POSITION_IDS: positions,
        FIRST_POSITIONS: np.array([[0, 7]] * SHAPE[0], np.int32),
    }


def outputs_and_gradients(backbone: BertBackbone, inputs: dict[str, np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Returns the outputs of the tokens, and the gradients of a sum of the outputs with random weights."""
    model = backbone.packed() if EXAMPLE_IDS in inputs else backbone
    width = backbone.config.hidden_dim
    # Outputs of padding are undefined.
    weights = np.random.default_rng(4).normal(size=(*SHAPE, width)) * inputs[PADDING_MASK][..., None]
    weights = weights.astype(np.float32)

    def loss_of(outputs):
        return keras.ops.sum(outputs["sequence_output"] * weights)

    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        @tf.function
        def step():
            with tf.GradientTape() as tape:
                outputs = model(inputs, training=True)
                loss = loss_of(outputs)
            return outputs["sequence_output"], tape.gradient(loss, backbone.trainable_variables)

        outputs, gradients = step()
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
    else:
        program, variables = _on_jax(model, inputs, loss_of)
        (_, outputs), gradients = program.compile()(*variables)
    return np.asarray(outputs) * inputs[PADDING_MASK][..., None], [np.asarray(gradient) for gradient in gradients]


def _on_jax(model: Any, inputs: dict[str, np.ndarray], loss_of: Any) -> tuple[Any, list[Any]]:
    """Returns the program of ((loss, outputs), gradients), and its arguments."""
    import jax

    def scaled(trainable, others):
        outputs, _ = model.stateless_call(trainable, others, inputs, training=True)
        return loss_of(outputs), outputs["sequence_output"]

    variables = [[v.value for v in group] for group in (model.trainable_variables, model.non_trainable_variables)]
    return jax.jit(jax.value_and_grad(scaled, has_aux=True)).lower(*variables), variables


def largest_difference(one: Any, other: Any) -> float:
    """Returns the largest difference of outputs and gradients, relative to the largest output and gradient.

    Some gradients are sums of large numbers that cancel, those of the keys' biases to 0. So each is compared with the
    largest gradient of all.
    """
    (outputs, gradients), (other_outputs, other_gradients) = one, other
    scale = max(np.max(np.abs(gradient)) for gradient in gradients)
    differences = [np.max(np.abs(a - b)) / scale for a, b in zip(gradients, other_gradients, strict=True)]
    return float(max(np.max(np.abs(outputs - other_outputs)) / np.max(np.abs(outputs)), *differences))


def compare(
    inputs: dict[str, np.ndarray], build: Callable[[], BertBackbone], in_parts: bool = False, **settings: Any
) -> float:
    """Returns the largest difference between the plain computation and one with `settings`, perhaps in parts."""
    found = []
    for number, chosen in enumerate(({"attention_kernel": "plain"}, settings)):
        backbone = build()
        set_computation(backbone, **chosen)
        with short_parts() if in_parts and number else contextlib.nullcontext():
            found.append(outputs_and_gradients(backbone, inputs))
    return largest_difference(*found)


def layers_computed_again(rematerialize: bool) -> int:
    """Returns the number of layers of an encoder that JAX computes again in the backward pass."""
    backbone = build(dropout=0.1)
    set_computation(backbone, rematerialize=rematerialize)
    program, _ = _on_jax(backbone, padded(), lambda outputs: keras.ops.sum(outputs["sequence_output"]))
    return program.as_text().count("optimization_barrier")


def main() -> None:
    """Prints the differences."""
    ltr = functools.partial(build, attention="left_to_right")
    found = {
        "padding": compare(padded(), build, attention_kernel="fused"),
        "packed_left_to_right": compare(packed(), ltr, attention_kernel="fused"),
        "rematerialized": compare(
            padded(), functools.partial(build, 0.1), attention_kernel="plain", rematerialize=True
        ),
    }
    modern = functools.partial(build, body="modern")
    for kernel in ("plain", "fused"):
        found[f"modern_{kernel}"] = compare(packed(), modern, in_parts=True, attention_kernel=kernel)
    ltr = functools.partial(modern, attention="left_to_right")
    found["modern_rematerialized"] = compare(packed(), ltr, in_parts=True, rematerialize=True)
    if keras.backend.backend() == "jax":
        found["computed_again"] = [layers_computed_again(False), layers_computed_again(True)]
    print(json.dumps(found))


if __name__ == "__main__":
    main()

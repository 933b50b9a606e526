"""Contract checks that every layer and model must pass."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf


@dataclass(frozen=True)
class Contract:
    """One layer or model under test.

    Args:
        factory: makes a new one of a given dtype policy.
        inputs: arguments of `call` by name, in order, batch first.
        output_shape: of those inputs; a dictionary where the output is one.
        weights: how many arrays, and how many numbers in them.
        still: name parts of weights that get no gradient, mathematically.
        output_dtypes: dtypes of outputs under `mixed_bfloat16`.
    """

    factory: Callable[[Any], keras.layers.Layer]
    inputs: dict[str, np.ndarray]
    output_shape: Any
    weights: tuple[int, int]
    still: tuple[str, ...] = ()
    output_dtypes: tuple[str, ...] = ("bfloat16",)


def run_layer_contract(contract: Contract, check: str, directory) -> None:
    """Runs the check of that name; `directory` is empty and writable."""
    CHECKS[check](contract, directory)


def call(layer, inputs):
    return layer(dict(inputs)) if isinstance(layer, keras.Model) else layer(*inputs.values())


def functional(layer, contract):
    """Returns `layer` as a model on a dictionary of named inputs with free batch and length."""
    if isinstance(layer, keras.Model):
        return layer
    symbols = symbolic_inputs(contract)
    return keras.Model(symbols, call(layer, symbols), name="wrapped")


def symbolic_inputs(contract):
    return {
        name: keras.Input(shape=_free_length(name, value), dtype=str(value.dtype), name=name)
        for name, value in contract.inputs.items()
    }


def _free_length(name, value):
    # (B, H) has no length; in (B, S), (B, P) and (B, S, H) it is the second axis.
    return value.shape[1:] if name == "pooled_output" else (None, *value.shape[2:])


def arrays(outputs):
    return [np.asarray(keras.ops.cast(x, "float32")) for x in keras.tree.flatten(outputs)]


def assert_same(first, second, tolerance=1e-6):
    for a, b in zip(arrays(first), arrays(second), strict=True):
        np.testing.assert_allclose(a, b, atol=tolerance, rtol=tolerance)


def perturb_weights(layer):
    """Moves the weights away from their small initial values, which hide most effects of a layer."""
    rng = np.random.default_rng(0)
    for weight in layer.trainable_weights:
        weight.assign(weight + 0.3 * rng.normal(size=weight.shape))


def check_config(contract, directory):
    layer = contract.factory(None)
    arguments = set(inspect.signature(type(layer).__init__).parameters) - {"self", "kwargs"}
    assert arguments <= set(layer.get_config())
    call(layer, contract.inputs)
    perturb_weights(layer)
    expected = call(layer, contract.inputs)
    again = type(layer).from_config(layer.get_config())
    through_json = keras.saving.deserialize_keras_object(
        json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
    )
    for copy in (again, through_json):
        assert type(copy) is type(layer)
        assert json.dumps(copy.get_config()) == json.dumps(layer.get_config())
        call(copy, contract.inputs)
        copy.set_weights(layer.get_weights())
        assert_same(call(copy, contract.inputs), expected)


def check_shapes(contract, directory):
    layer = contract.factory(None)
    outputs = call(layer, contract.inputs)
    assert keras.tree.map_structure(lambda x: tuple(x.shape), outputs) == contract.output_shape
    count, size = contract.weights
    assert len(layer.weights) == count
    assert sum(int(np.prod(weight.shape)) for weight in layer.weights) == size
    fixed = {name: keras.KerasTensor(value.shape, str(value.dtype)) for name, value in contract.inputs.items()}
    known = keras.tree.flatten(call(layer, fixed))
    free = keras.tree.flatten(call(contract.factory(None), symbolic_inputs(contract)))
    for output, whole, partial in zip(keras.tree.flatten(outputs), known, free, strict=True):
        assert tuple(whole.shape) == tuple(output.shape)
        assert len(partial.shape) == len(output.shape) and partial.shape[0] is None
        assert all(size in (None, got) for size, got in zip(partial.shape, output.shape, strict=True))
        assert whole.dtype == partial.dtype == keras.backend.standardize_dtype(output.dtype)
    if not isinstance(layer, keras.Model):
        shapes = [value.shape for value in contract.inputs.values()]
        assert tuple(layer.compute_output_shape(*shapes)) == contract.output_shape


def check_mixed_bfloat16(contract, directory):
    layer = contract.factory("mixed_bfloat16")
    outputs = keras.tree.flatten(call(layer, contract.inputs))
    assert tuple(keras.backend.standardize_dtype(x.dtype) for x in outputs) == contract.output_dtypes
    assert all(np.isfinite(x).all() for x in arrays(outputs))
    assert all(weight.dtype == "float32" for weight in layer.weights)
    symbolic = keras.tree.flatten(call(layer, symbolic_inputs(contract)))
    assert tuple(x.dtype for x in symbolic) == contract.output_dtypes


def check_train_step(contract, directory):
    layer = contract.factory(None)
    call(layer, contract.inputs)
    if not layer.trainable_weights:
        assert contract.weights == (0, 0)
        return
    perturb_weights(layer)
    before = [np.array(weight.value) for weight in layer.trainable_weights]
    optimizer = keras.optimizers.SGD(1.0)
    with tf.GradientTape() as tape:
        outputs = keras.tree.flatten(call(layer, contract.inputs))
        # Sums and sums of squares do not depend on a layer normalization, so another power is used.
        loss = sum(tf.reduce_mean(tf.cast(x, "float32") ** 3) for x in outputs)
    gradients = tape.gradient(loss, [weight.value for weight in layer.trainable_weights])
    assert np.isfinite(float(loss))
    assert all(gradient is not None for gradient in gradients)
    optimizer.apply(gradients, layer.trainable_weights)
    for weight, old in zip(layer.trainable_weights, before, strict=True):
        moved = np.abs(np.asarray(weight.value) - old).max()
        assert np.isfinite(moved)
        assert moved > 1e-6 or any(part in weight.path for part in contract.still), weight.path


def check_keras_file(contract, directory):
    model = functional(contract.factory(None), contract)
    model.save(directory / "model.keras")
    restored = keras.models.load_model(directory / "model.keras")
    assert type(restored) is type(model)
    assert len(restored.weights) == len(model.weights)
    assert_same(restored(dict(contract.inputs)), model(dict(contract.inputs)))


def check_saved_model(contract, directory):
    model = functional(contract.factory(None), contract)
    model.export(str(directory / "saved_model"), verbose=False)
    loaded = tf.saved_model.load(str(directory / "saved_model"))
    for rows in (None, 1):
        inputs = {name: value[:rows] for name, value in contract.inputs.items()}
        served = loaded.serve({name: tf.constant(value) for name, value in inputs.items()})
        assert_same(served, model(inputs), tolerance=1e-5)


CHECKS = {
    "config": check_config,
    "shapes": check_shapes,
    "mixed_bfloat16": check_mixed_bfloat16,
    "train_step": check_train_step,
    "keras_file": check_keras_file,
    "saved_model": check_saved_model,
}

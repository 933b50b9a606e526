"""One row of `benchmarks.accelerator`: a training step on random tokens; imports no TensorFlow if Keras uses JAX.

`python -m benchmarks.step_row JSON` measures the row of that JSON and prints its results as JSON.
"""

from __future__ import annotations

import itertools
import json
import math
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import keras
import numpy as np

from benchmarks.devices import Device, Roofline, find_device, step_bytes
from bert_tf.config import BertConfig, TrainingConfig
from bert_tf.data.input.packing import pack_batch
from bert_tf.data.schema import MASK_POSITIONS, MLM_LOGITS, NSP_LOGITS, PADDING_MASK, SEGMENT_IDS, TOKEN_IDS
from bert_tf.layers.computation import set_computation
from bert_tf.models import BertBackbone, BertPretrainer
from bert_tf.optim.build import make_optimizer
from bert_tf.training.backends import Backend, current_backend, precision_scope
from bert_tf.training.logging.flops import measured_peak, step_flops
from bert_tf.training.losses import PRETRAINING, TrainingModel

_WARMUP, _STEPS, _SEED = 3, 1000, 1
# Share of the tokens to predict.
_MASKED = 0.15
# Lengths of the examples are uniform from this share of the longest on: the mean of 60 % is that of Wikipedia at 512.
_SHORTEST = 0.2
# Elements of the array that measures the bandwidth of unknown devices: 256 MB.
_ELEMENTS = 1 << 26
Batch = tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, np.ndarray]]


@dataclass(frozen=True)
class Row:
    """The settings of a step.

    Args:
        size: size of the model, a key of `bert_tf.config.model.SIZES`.
        length: positions of a sequence.
        batch: examples of a step.
        precision: `float32` or `bfloat16`.
        attention: `plain` or `fused`.
        rematerialize: whether the backward pass computes activations again.
        padding: `full`, or `pack` for several examples in a row.
        normalization: `float32` or `compute`, the dtype of layer normalization.
        pad_vocabulary: `true`, `false` or `auto`.
        repetitions: timed repetitions.
        steps: steps of a repetition.
    """

    size: str
    length: int
    batch: int
    precision: str = "bfloat16"
    attention: str = "plain"
    rematerialize: bool = False
    padding: str = "full"
    normalization: str = "float32"
    pad_vocabulary: str = "auto"
    repetitions: int = 5
    steps: int = 3

    @property
    def name(self) -> str:
        """Returns the settings in words."""
        again = ", remat" if self.rematerialize else ""
        less = ", compute normalization" if self.normalization == "compute" else ""
        padded = "" if self.pad_vocabulary == "auto" else f", padded vocabulary {self.pad_vocabulary}"
        step = f"{self.size}, {self.batch} x {self.length}, {self.precision}, {self.attention}"
        return f"{step}{again}, {self.padding}{less}{padded}"

    @property
    def predictions(self) -> int:
        """Predictions of a sequence."""
        return math.ceil(_MASKED * self.length)

    @property
    def model(self) -> BertConfig:
        """Architecture. Attention dropout is 0 for both kernels, because the fused one has none."""
        positions = max(512, self.length)
        return BertConfig.from_size(self.size, attention_dropout=0.0, max_sequence_length=positions)

    @property
    def training(self) -> TrainingConfig:
        """Training configuration with the optimizer of the paper."""
        return TrainingConfig(
            steps=_STEPS,
            batch_size=self.batch,
            padding=self.padding,
            precision=self.precision,
            attention_kernel=self.attention,
            rematerialize=self.rematerialize,
            normalization=self.normalization,
            pad_vocabulary=self.pad_vocabulary,
        )


def examples(row: Row) -> Batch:
    """Returns a batch of random pieces in the form of `bert_tf.data.input`, unpacked."""
    rng = np.random.default_rng(_SEED)
    lengths = rng.integers(math.ceil(_SHORTEST * row.length), row.length + 1, row.batch)
    position = np.arange(row.length)
    is_token = position < lengths[:, None]
    counts = np.maximum(1, np.round(_MASKED * lengths)).astype(np.int64)
    predicted = np.arange(row.predictions) < counts[:, None]
    drawn = np.argsort(np.where(is_token, rng.random(is_token.shape), 2.0), axis=1)[:, : row.predictions]
    vocabulary_size = row.model.vocabulary_size
    inputs = {
        TOKEN_IDS: np.where(is_token, rng.integers(1000, vocabulary_size, is_token.shape), 0).astype(np.int32),
        SEGMENT_IDS: (is_token & (position >= lengths[:, None] // 2)).astype(np.int32),
        PADDING_MASK: is_token.astype(np.int32),
        MASK_POSITIONS: np.where(predicted, drawn, 0).astype(np.int32),
    }
    targets = {
        MLM_LOGITS: rng.integers(1000, vocabulary_size, predicted.shape).astype(np.int32),
        NSP_LOGITS: rng.integers(0, 2, row.batch).astype(np.int32),
    }
    weights = {MLM_LOGITS: predicted.astype(np.float32), NSP_LOGITS: np.ones(row.batch, np.float32)}
    return inputs, targets, weights


def batch_of(row: Row, backend: Backend) -> Batch:
    """Returns the batch of a row, packed as in a run if the row asks for it."""
    batch = examples(row)
    return batch if row.padding == "full" else pack_batch(*batch, backend.rows_multiple(row.training))


def build(row: Row, backend: Backend) -> TrainingModel:
    """Builds the training model and its optimizer as a pre-training run does."""
    config = row.training
    with backend.build_scope(config):
        with precision_scope(config):
            keras.utils.set_random_seed(_SEED)
            model = BertPretrainer(BertBackbone(row.model))
        set_computation(
            model, config.attention_kernel, config.rematerialize, config.pad_vocabulary, config.normalization
        )
        trained = model.packed() if row.padding == "pack" else model
        training = backend.training_model(trained, PRETRAINING, config.accumulate, backend.uses_xla(config))
        training.compile(optimizer=make_optimizer(config, _STEPS, model.trainable_variables))
    return training


def state_of(training: Any) -> tuple[list[Any], ...]:
    """Returns the state of a training model on JAX: weights, other variables, optimizer, metrics."""
    groups = (
        training.trainable_variables,
        training.non_trainable_variables,
        training.optimizer.variables,
        training.metrics_variables,
    )
    return tuple([variable.value for variable in group] for group in groups)


def compiled_step(training: Any, state: Any, batch: Any) -> Any:
    """Returns the step of a training model on JAX, compiled by XLA for arrays, or for their shapes."""
    import jax

    return jax.jit(lambda *arguments: training.train_step(*arguments), donate_argnums=0).lower(state, batch).compile()


def program_facts(compiled: Any) -> dict[str, float]:
    """Returns XLA's estimates for a compiled step: operations and bytes, and the sizes of its buffers."""
    cost, memory = compiled.cost_analysis() or {}, compiled.memory_analysis()
    facts = {"xla_flops": cost.get("flops"), "xla_bytes": cost.get("bytes accessed")}
    if memory is not None:
        facts |= {"state_bytes": memory.argument_size_in_bytes, "temporary_bytes": memory.temp_size_in_bytes}
    return {name: float(value) for name, value in facts.items() if value is not None}


def measure_row(row: Row) -> dict[str, Any]:
    """Returns the settings, times, rates and memory of a row, and its roofline."""
    backend = current_backend()
    batch = batch_of(row, backend)
    training = build(row, backend)
    facts: dict[str, Any] = {"parameters": sum(math.prod(v.shape) for v in training.trainable_variables)}
    if keras.backend.backend() == "jax":
        step, wait, found = _jax_step(training, batch)
        facts |= found
    else:
        step, wait = _tensorflow_step(training, batch)
    for _ in range(_WARMUP):
        step()
    wait()
    times = []
    for _ in range(row.repetitions):
        began = time.perf_counter()
        for _ in range(row.steps):
            step()
        wait()
        times.append((time.perf_counter() - began) / row.steps)
    facts |= {"seconds": statistics.median(times), "seconds_range": [min(times), max(times)], "loss": wait()}
    # Before the rates of an unknown device are measured with large arrays.
    facts |= peak_memory()
    return asdict(row) | {"name": row.name} | facts | rates(row, batch, facts["seconds"], device())


def rates(row: Row, batch: Batch, seconds: float, device: Device) -> dict[str, Any]:
    """Returns sequences and tokens per second, MFU, and the roofline of a batch whose step takes `seconds`."""
    rows, length = batch[0][PADDING_MASK].shape
    predictions, width = batch[1][MLM_LOGITS].shape[1], 4 if row.precision == "float32" else 2
    flops = step_flops(row.model, rows, length, predictions)
    moved = step_bytes(row.model, rows, length, predictions, width, row.attention == "fused", row.rematerialize)
    peak = device.flops[row.precision]
    roofline = Roofline(flops, moved, peak, device.bandwidth)
    return {
        "device": device.name,
        "peak_flops": peak,
        "bandwidth": device.bandwidth,
        "peak_source": device.source,
        "rows": rows,
        "sequences_per_second": row.batch / seconds,
        "tokens_per_second": float(batch[0][PADDING_MASK].sum()) / seconds,
        "flops": flops,
        "bytes": moved,
        "mfu": flops / seconds / peak,
        "intensity": roofline.intensity,
        "ridge": device.ridge(row.precision),
        "bound": roofline.bound,
        "roofline_seconds": roofline.seconds,
    }


def device() -> Device:
    """Returns the first device; the rates of an unknown one are measured."""
    kind = _device_kind()
    known = find_device(kind)
    if known:
        return known
    flops = {dtype: measured_peak(dtype) for dtype in ("float32", "bfloat16")}
    return Device(kind, flops, measured_bandwidth(), "measured with a matrix product and a sum")


def measured_bandwidth() -> float:
    """Returns the bytes per second at which a large array is summed, the best of a few runs."""
    values, best = keras.ops.ones((_ELEMENTS,), "float32"), math.inf
    for _ in range(5):
        began = time.perf_counter()
        keras.ops.convert_to_numpy(keras.ops.sum(values))
        best = min(best, time.perf_counter() - began)
    return 4 * _ELEMENTS / best


def peak_memory() -> dict[str, Any]:
    """Returns the peak memory of the device, or of this process if the device does not report it."""
    peak: int | None = None
    if keras.backend.backend() == "jax":
        import jax

        peak = (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    else:
        import tensorflow as tf

        if tf.config.list_logical_devices("GPU"):
            peak = tf.config.experimental.get_memory_info("GPU:0")["peak"]
    if peak is not None:
        return {"peak_bytes": peak, "peak_of": "device"}
    return {"peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10, "peak_of": "process"}


def _device_kind() -> str:
    if keras.backend.backend() == "jax":
        import jax

        return jax.local_devices()[0].device_kind
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    return tf.config.experimental.get_device_details(gpus[0]).get("device_name", "GPU") if gpus else "cpu"


def _jax_step(training: Any, batch: Batch) -> tuple[Callable[[], None], Callable[[], float], dict[str, float]]:
    """Returns the step, a function that waits for its last loss and returns it, and XLA's estimates."""
    import jax

    arrays, state = jax.device_put(batch), state_of(training)
    compiled = compiled_step(training, state, arrays)
    last: list[Any] = [state, None]

    def step() -> None:
        last[1], last[0] = compiled(last[0], arrays)

    return step, lambda: float(jax.tree.leaves(last[1])[0]), program_facts(compiled)


def _tensorflow_step(training: Any, batch: Batch) -> tuple[Callable[[], None], Callable[[], float]]:
    """Returns the step, and a function that waits for the device and returns the mean loss."""
    import tensorflow as tf

    training.make_train_function()
    endless: Iterator[Any] = iter(tf.data.Dataset.from_tensors(batch).repeat().prefetch(2))

    def wait() -> float:
        # The device computes in order.
        keras.ops.convert_to_numpy(training.trainable_variables[-1])
        return training.results()["loss"]

    return lambda: training.train_function(endless), wait


def compile_row(row: Row) -> dict[str, Any]:
    """Returns XLA's estimates for the step of a row on JAX; only shapes are built, no array of the model.

    `kept_bytes` are the values that the forward pass keeps for the backward pass before XLA optimizes them.
    """
    import jax

    backend, built = current_backend(), []

    def state() -> Any:
        built.append(build(row, backend))
        return state_of(built[0])

    shapes = jax.eval_shape(state)
    training = built[0]
    batch = jax.tree.map(lambda array: jax.ShapeDtypeStruct(array.shape, array.dtype), batch_of(row, backend))
    kept = jax.tree.leaves(jax.eval_shape(lambda *values: kept_values(training, *values), *shapes[:2], batch))
    facts = program_facts(compiled_step(training, shapes, batch))
    facts["kept_bytes"] = sum(math.prod(value.shape) * value.dtype.itemsize for value in kept)
    return asdict(row) | {"name": row.name, "platform": jax.default_backend()} | facts


def kept_values(training: Any, trainable: Any, others: Any, batch: Any) -> list[Any]:
    """Returns the values, besides the arguments, that the backward pass of a step reads."""
    import jax

    inputs, targets, weights = batch

    def loss(trainable: Any) -> Any:
        outputs, _ = training.stateless_call(trainable, others, inputs, training=True)
        totals = training.total_weights(targets, weights)
        return training.share_of(training.weighted_sums(targets, outputs, weights), totals)

    _, backward = jax.vjp(loss, trainable)
    known = {id(value) for value in itertools.chain(trainable, others, jax.tree.leaves(batch))}
    return [value for value in jax.tree.leaves(backward) if id(value) not in known]


if __name__ == "__main__":
    print(json.dumps(measure_row(Row(**json.loads(sys.argv[1])))))

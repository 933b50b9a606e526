"""One row of `benchmarks.input_pipeline`: reads batches on a number of cores, and counts processor time.

`python -m benchmarks.input_reader JSON` measures the row of that JSON and prints its results as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bert_tf.config import BertConfig
from bert_tf.data.schema import MASK_POSITIONS, PADDING_MASK

_SEED = 1


@dataclass(frozen=True)
class Reading:
    """The settings of a pipeline.

    Args:
        data: data directory.
        pipeline: `tensorflow` (tf.data) or `numpy`, which JAX reads without TensorFlow.
        padding: value of `training.padding`.
        cores: cores that the process may use.
        batch: examples of a batch.
        examples: examples to read after the first batches; a mean needs several windows of the shuffle (16,384).
        size: size of the model whose operations are counted.
    """

    data: str
    pipeline: str
    padding: str
    cores: int
    batch: int = 256
    examples: int = 65_536
    size: str = "base"


def batches_of(reading: Reading) -> Iterator[Any]:
    """Returns endless batches of the pipeline."""
    options = {"batch_size": reading.batch, "seed": _SEED, "by_length": reading.padding == "bins"}
    if reading.pipeline == "numpy":
        from bert_tf.data.input.numpy import pretraining_batches

        batches: Any = pretraining_batches(reading.data, "train", **options)
    else:
        from bert_tf.data.input.tf import pretraining_dataset

        batches = pretraining_dataset(reading.data, "train", **options)
    if reading.padding == "pack":
        from bert_tf.data.input import packed_data

        batches = packed_data(batches, 1)
    return iter(batches)


def read(reading: Reading) -> dict[str, Any]:
    """Returns processor seconds, seconds, tokens and model operations of reading the examples.

    The seconds of the processor are those of all threads. Batches that the pipeline prepares ahead are not counted as
    examples, but their number is limited.
    """
    from bert_tf.training.logging.flops import step_flops

    # The window of the shuffle is filled before the first batch.
    batches, warmup = batches_of(reading), 2
    for _ in range(warmup):
        next(batches)
    config = BertConfig.from_size(reading.size)
    count = max(1, reading.examples // reading.batch)
    began, processor = time.perf_counter(), _processor_seconds()
    tokens, flops, rows = 0, 0.0, 0
    for _ in range(count):
        inputs = next(batches)[0]
        mask = np.asarray(inputs[PADDING_MASK])
        tokens += int(mask.sum())
        rows += len(mask)
        flops += step_flops(config, *mask.shape, inputs[MASK_POSITIONS].shape[1])
    used, examples = _processor_seconds() - processor, count * reading.batch
    return asdict(reading) | {
        "read": examples,
        "tokens": tokens,
        "rows": rows,
        "flops": flops,
        "processor_seconds": used,
        "seconds": time.perf_counter() - began,
    }


def _processor_seconds() -> float:
    times = os.times()
    return times.user + times.system


if __name__ == "__main__":
    row = Reading(**json.loads(sys.argv[1]))
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: row.cores])
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    print(json.dumps(read(row)))

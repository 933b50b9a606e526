from __future__ import annotations

import numpy as np
import pytest

from bert_tf.config import BertConfig
from bert_tf.training.logging.flops import DevicePeak, forward_flops, measured_peak, step_flops


def products(config, length, predictions):
    """Shapes (rows, inner, columns) of all matrix products of one sequence, one after the other."""
    hidden, heads, size = config.hidden_dim, config.num_heads, config.hidden_dim // config.num_heads
    layer = [(length, hidden, hidden)] * 4  # query, key, value, output
    layer += [(length, size, length), (length, length, size)] * heads
    layer += [(length, hidden, config.intermediate_dim), (length, config.intermediate_dim, hidden)]
    heads_ = [(predictions, hidden, hidden), (predictions, hidden, config.vocabulary_size)]
    heads_ += [(1, hidden, hidden), (1, hidden, 2)] if config.pooler else []
    return layer * config.num_layers + heads_


@pytest.mark.parametrize(("size", "pooler"), [("tiny", True), ("tiny", False), ("base", True), ("large", True)])
def test_flops_count_matrix_products(size, pooler):
    config = BertConfig.from_size(size, pooler=pooler)
    expected = sum(2 * int(np.prod(shape, dtype=np.int64)) for shape in products(config, 128, 20))
    assert forward_flops(config, 128, 20) == expected
    assert step_flops(config, 32, 128, 20) == 3 * 32 * expected


def test_base_needs_about_six_operations_per_parameter_and_token():
    encoder = 85_000_000  # without embeddings
    per_token = step_flops(BertConfig.from_size("base"), 1, 128, 20) / 128
    assert per_token == pytest.approx(6 * encoder, rel=0.1)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_measured_peak_is_plausible(dtype):
    assert 1e8 < measured_peak(dtype) < 1e15


def test_peak_is_measured_again_if_the_throughput_exceeds_it():
    timings = iter([10.0, 12.0, 30.0])
    peak = DevicePeak(0.0, lambda: next(timings))
    assert peak.share(5.0, 1.0) == 0.5
    # The throughput exceeds the measured peak: the peak is measured again and is at least the throughput.
    assert peak.share(40.0, 2.0) == 1.0
    assert peak.share(10.0, 1.0) == 0.5
    assert peak.share(24.0, 1.0) == 24.0 / 30.0


def test_stated_peak_is_not_measured():
    peak = DevicePeak(10.0, lambda: pytest.fail("nothing is timed where the peak is stated"))
    assert peak.share(20.0, 1.0) == 2.0

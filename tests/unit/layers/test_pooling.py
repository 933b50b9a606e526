"""Pooling uses only tokens and ignores the content of padding."""

from __future__ import annotations

import numpy as np
import pytest

from bert_tf.layers import TokenPooling

RNG = np.random.default_rng(0)
SEQUENCE = RNG.normal(size=(4, 6, 5)).astype("float32") - 3
MASK = (np.arange(6) < np.array([[6], [3], [1], [0]])).astype("int32")


@pytest.mark.parametrize(("kind", "oracle"), [("mean", np.mean), ("max", np.max), ("last", lambda row, axis: row[-1])])
def test_pooling_equals_numpy(kind, oracle):
    expected = [oracle(row[:length], axis=0) for row, length in zip(SEQUENCE, (6, 3, 1), strict=False)]
    noise = np.where(MASK[..., None], SEQUENCE, 1e6).astype("float32")
    for sequence in (SEQUENCE, noise):
        pooled = np.asarray(TokenPooling(kind)(sequence, MASK))
        np.testing.assert_allclose(pooled[:3], expected, rtol=1e-5)
        np.testing.assert_array_equal(pooled[3], np.zeros(5))


@pytest.mark.parametrize("kind", ["mean", "max", "last"])
def test_empty_batch(kind):
    assert TokenPooling(kind)(SEQUENCE[:0], MASK[:0]).shape == (0, 5)


def test_another_kind_is_refused():
    with pytest.raises(ValueError, match="`kind` must be `mean`, `max` or `last`. Received: 'sum'"):
        TokenPooling("sum")

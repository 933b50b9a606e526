"""Training steps whose forward and backward pass XLA compiles."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import replace

import numpy as np
import pytest

from bert_tf.training.fit import weights_sha256
from tests.support.layers.short_parts import short_parts
from tests.support.training.tiny_run import CONFIG, run

COMPILED = replace(CONFIG, jit_compile="true", accumulate=2)


@pytest.mark.parametrize("body", ["", "modern"])
def test_compiled_steps_equal_the_others(body, tmp_path):
    """Without dropout: XLA draws other masks."""
    with short_parts() if body else contextlib.nullcontext():
        plain, compiled = (
            run(tmp_path / config.jit_compile, config, dropout=0.0, body=body)
            for config in (replace(CONFIG, accumulate=2), COMPILED)
        )
    for one, other in zip(plain.model.trainable_weights, compiled.model.trainable_weights, strict=True):
        np.testing.assert_allclose(other.numpy(), one.numpy(), atol=1e-5, rtol=1e-5)


def test_a_compiled_run_resumes_to_the_bit(tmp_path):
    whole = weights_sha256(run(tmp_path / "run", COMPILED).model)
    for step in (10, 12):
        shutil.rmtree(tmp_path / f"run/checkpoints/step-{step:08d}")
    assert weights_sha256(run(tmp_path / "run", COMPILED).model) == whole

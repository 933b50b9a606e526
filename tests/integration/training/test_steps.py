"""The host reads values of the devices at events only, and finds the first step that was not finite."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import keras
import numpy as np
import pytest

from bert_tf.data.schema import MLM_LOGITS
from bert_tf.training.loop.checkpoints import NotFiniteError
from tests.support.training.tiny_run import CONFIG, run

RARE = replace(CONFIG, log_every=1000, checkpoint_every=1000)


@pytest.fixture
def reads(monkeypatch):
    """Counts the values that are copied from tensors, by dtype."""
    import tensorflow as tf

    counted = Counter()
    kind = type(tf.constant(1.0)).__mro__[1]
    original = kind._numpy

    def _numpy(self):
        counted[self.dtype.name] += 1
        return original(self)

    monkeypatch.setattr(kind, "_numpy", _numpy)
    return counted


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="counts reads of TensorFlow's tensors")
@pytest.mark.parametrize("jit_compile", ["false", "true"])
def test_reads_do_not_depend_on_the_number_of_steps(tmp_path, reads, jit_compile):
    found = []
    for steps in (4, 8):
        reads.clear()
        run(tmp_path / str(steps), replace(RARE, steps=steps, jit_compile=jit_compile))
        found.append(reads.copy())
    # Two times and the shape of the batch, which are in the memory of the host.
    of_host = {"float64": 8, "string": 4} if jit_compile == "true" else {"float64": 8}
    assert found[1] - found[0] == Counter(of_host)


@pytest.mark.parametrize(("step", "fields"), [(2, {}), (7, {"log_every": 3}), (11, {"precision": "float16"})])
def test_first_step_that_is_not_finite_is_found_at_the_next_event(tmp_path, step, fields):
    """All later steps are not finite either, because they start from its weights."""

    def at_step(number, made):
        if number == step:
            made[2][MLM_LOGITS][0, 0] = np.nan
        return made

    with pytest.raises(NotFiniteError, match=f"step {step + 1}: ") as error:
        run(tmp_path / "run", replace(RARE, **fields), at_step=at_step)
    assert error.value.step == step

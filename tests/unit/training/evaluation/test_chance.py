"""Remarks on classifiers that are no better than the most frequent label."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bert_tf.optim.compile_defaults import remark_on


@pytest.mark.parametrize(
    ("labels", "accuracy", "remark"),
    [
        (["a", "b"] * 50, 0.55, True),
        (["a", "b"] * 50, 0.65, False),
        (np.array([0, 1, 1, 1] * 100), 0.76, True),
        (np.array([0, 1, 1, 1] * 100), 0.9, False),
        (np.full((100, 2), 0.5), 0.1, False),
        (np.linspace(0, 1, 100), 0.1, False),
        ([], 0.0, False),
    ],
    ids=["balanced", "better", "frequent", "better than frequent", "probabilities", "numbers", "none"],
)
def test_remarks_are_on_labels_that_were_not_learned(labels: Any, accuracy: float, remark: bool) -> None:
    assert bool(remark_on(labels, accuracy, 500, 3, 3e-5, 768)) == remark


def test_what_to_do_names_the_arguments_of_keras() -> None:
    said = remark_on(["a", "b"] * 50, 0.5, 12, 3, 3e-5, 128)
    assert "(`epochs=59`)" in said and "(`compile(learning_rate=0.00044)`)" in said
    # The steps of a generator and the rate of another optimizer are unknown.
    assert "Next: try another seed" in remark_on(["a", "b"] * 50, 0.5, None, 3, None, 128)

"""Bounds on rounding errors, and the resulting ties."""

from __future__ import annotations

import doctest
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.config import BertConfig
from bert_tf.export.kinds.span_ties import open_answers
from bert_tf.export.verify import tolerances
from bert_tf.export.verify.tolerances import at_tokens, is_tie, probability_tolerance, relative_tolerance

CONFIG = BertConfig(vocabulary_size=100, hidden_dim=384, num_layers=6, num_heads=12, intermediate_dim=1536)
QUICK = settings(deadline=None, max_examples=60)


def test_examples_of_the_module_run() -> None:
    assert doctest.testmod(tolerances) == doctest.TestResults(failed=0, attempted=3)


def test_bounds_grow_with_depth_and_width_and_follow_the_precision() -> None:
    base = relative_tolerance("float32", CONFIG)
    assert relative_tolerance("int8", CONFIG) == base
    assert relative_tolerance("float32", replace(CONFIG, num_layers=13)) == pytest.approx(2 * base)
    wider = relative_tolerance("float32", replace(CONFIG, intermediate_dim=4 * 1536))
    # Variances of 12 stored values, three functions, and six sums of n / 8 terms.
    assert wider / base == pytest.approx(((780 + 4 * 576) / (780 + 576)) ** 0.5)
    assert base == pytest.approx((2 / 3 * (780 + 576)) ** 0.5 * 2**-24 * 7)
    # sqrt(2 * 12 / 3) roundings of 2^-8 for each of six layers and the embeddings.
    assert relative_tolerance("bfloat16", CONFIG) == pytest.approx(8**0.5 * 2**-8 * 7)
    with pytest.raises(KeyError):
        relative_tolerance("float16", CONFIG)


def perturbed(seed: int, error: float, size: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """Returns the softmax of logits up to 12, and of the same logits with errors up to `error`."""
    rng = np.random.default_rng(seed)
    logits = rng.uniform(-12, 12, (200, size))
    off = logits + rng.choice([-error, error], logits.shape)
    both = [np.exp(values - values.max(-1, keepdims=True)) for values in (logits, off)]
    first, second = (values / values.sum(-1, keepdims=True) for values in both)
    return first.astype(np.float32), second.astype(np.float32)


@QUICK
@given(st.integers(0, 2**32), st.floats(1e-5, 1.0))
def test_differences_of_probabilities_are_within_their_bound(seed: int, error: float) -> None:
    before, after = perturbed(seed, error)
    # float32 rounds each side.
    rounding = (before + after) * 2.0**-22
    assert (np.abs(after - before) <= probability_tolerance(before, error) + rounding).all()


@QUICK
@given(st.integers(0, 2**32), st.floats(1e-5, 1.0))
def test_best_class_is_stable_without_a_tie(seed: int, error: float) -> None:
    before, after = perturbed(seed, error)
    decided = ~is_tie(before, error * 1.001)
    assert (before.argmax(-1) == after.argmax(-1))[decided].all()
    assert decided.any()


def test_ties_are_detected() -> None:
    assert is_tie(np.float32([[0.5, 0.5], [0.9, 0.1], [1, 0]]), 1e-3).tolist() == [True, False, False]
    assert is_tie(np.float32([[1.0]]), 1.0).tolist() == [False]
    assert is_tie(np.zeros((0, 3), np.float32), 1.0).tolist() == []


def test_padding_has_no_bound() -> None:
    mask = np.array([[1, 1, 0], [1, 0, 0]])
    inf = np.inf
    assert at_tokens(0.5, mask, 2).tolist() == [[0.5, 0.5, inf], [0.5, inf, inf]]
    assert at_tokens(0.5, mask, 4).shape == (2, 3, 1, 1)


def spans(texts: list[str], probabilities: list[float], odds: float | None = None) -> dict[str, np.ndarray]:
    candidates = np.array([[text.encode() for text in texts]], object)
    outputs = {"n_best_answers": candidates, "n_best_probabilities": np.float32([probabilities])}
    outputs["answer"] = candidates[:, 0]
    return outputs if odds is None else outputs | {"null_odds": np.float32([odds])}


def test_tied_answers_have_no_tolerance() -> None:
    outputs = spans(["a cat", "dog", "the", "mat", ""], [0.6, 0.2, 0.1999, 0.0001, 0.0])
    found = open_answers(np.array([b"the a cat dog the mat"], object), outputs, 0.01, float("inf"))
    # The last candidate is tied with candidates that are not among the best.
    assert found["n_best_answers"].tolist() == [[False, True, True, True, False]]
    assert found["n_best_probabilities"].tolist() == [[False]]
    assert found["answer"].tolist() == found["start"].tolist() == [False]
    assert open_answers(np.array([b"a cat"], object), outputs, 1.0, 9.0)["answer"].tolist() == [True]


def test_repeated_answer_text_may_have_either_position() -> None:
    outputs = spans(["cat", "dog"], [0.7, 0.3])
    found = open_answers(np.array([b"dog cat cat"], object), outputs, 0.01, float("inf"))
    assert found["answer"].tolist() == [False] and found["start"].tolist() == [True]
    assert found["n_best_starts"].tolist() == [[True, True]]


@pytest.mark.parametrize(
    ("texts", "odds", "probabilities", "is_open", "probabilities_are_open"),
    [
        (["cat", "", "dog", ""], 3.0, [0.7, 0.2, 0.1, 0.0], False, False),
        # Near the threshold, both answers are possible.
        (["cat", "", "dog", ""], 0.01, [0.7, 0.2, 0.1, 0.0], True, False),
        # "" may drop out of the three best.
        (["cat", "dog", "", ""], 3.0, [0.7, 0.2, 0.1, 0.0], False, True),
        (["cat", "dog", "mat", ""], 3.0, [0.5, 0.3, 0.1001, 0.1], False, True),
        (["cat", "dog", "mat", ""], 3.0, [0.5, 0.3, 0.15, 0.05], False, False),
    ],
)
def test_tie_with_no_answer_is_detected(
    texts: list[str], odds: float, probabilities: list[float], is_open: bool, probabilities_are_open: bool
) -> None:
    outputs = spans(texts, probabilities, odds)
    found = open_answers(np.array([b"cat dog mat"], object), outputs, 0.01, 0.0)
    assert found["answer"].tolist() == [is_open]
    assert found["n_best_probabilities"].tolist() == [[probabilities_are_open]]
    assert found["probability"].tolist() == [is_open or probabilities_are_open]

"""The n best answers compared with a search through all spans, including n = 1."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.encoding import answers as squad_answers
from bert_tf.encoding.answers import Candidate, SquadAnswer, average
from bert_tf.encoding.spans import Windows, scored_tokens
from bert_tf.tasks.squad.task import Squad1Task, Squad2Task
from tests.support.tasks.squad_examples import example, tokenizer

TOKENIZER = tokenizer()


def all_spans(asked, windows: Windows, number: int, outputs, longest: int) -> dict[str, float]:
    """Returns the best score of each text, from all spans that start in the window with the most context."""
    start, end = (outputs[name].astype(float) for name in ("start_logits", "end_logits"))
    scored = scored_tokens(windows, int(windows.examples[-1]) + 1)
    best: dict[str, float] = {}
    for pair in range(scored.splits[number], scored.splits[number + 1]):
        token = scored.origins[number] + pair - scored.splits[number]
        for further in range(min(longest, scored.ends[pair] - scored.places[pair])):
            text = asked.context[windows.starts[token] : windows.limits[token + further]]
            score = start[scored.places[pair]] + end[scored.places[pair] + further]
            best[text] = max(best.get(text, -np.inf), score)
    return best


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text("aab ", max_size=25).filter(str.strip), min_size=1, max_size=3),
    st.integers(1, 5),
    st.integers(1, 6),
    st.sampled_from([1, 2, 5, 20]),
    st.integers(0, 99),
    st.booleans(),
)
def test_n_best_answers_equal_a_search_over_all_spans(contexts, stride, longest, n_best, seed, ties) -> None:
    task = Squad2Task(stride, max_query_length=2, max_answer_length=longest, n_best=n_best)
    examples = [example("a b", context, name=str(n)) for n, context in enumerate(contexts)]
    windows = task.encode(examples, TOKENIZER, 9, labelled=False)
    drawn = np.random.default_rng(seed).normal(size=(2, len(windows.token_ids))) * 4
    values = (np.round(drawn) if ties else drawn).astype(np.float32)
    outputs = dict(zip(("start_logits", "end_logits"), values, strict=True))
    for number, answer in enumerate(task.answers(examples, windows, outputs)):
        texts = all_spans(examples[number], windows, number, outputs, longest)
        cls = windows.row_splits[:-1][windows.examples == number]
        null = min(float(values[0][at]) + float(values[1][at]) for at in cls)
        assert answer.null_odds == pytest.approx(null - max(texts.values()), abs=1e-6)
        assert (answer.text == "") == (answer.null_odds > 0)
        ranked = sorted([*texts.values(), null], reverse=True)[:n_best]
        scores = [c.start_logit + c.end_logit for c in answer.candidates]
        assert scores[: len(ranked)] == pytest.approx(ranked, abs=1e-6)
        assert n_best <= len(scores) <= n_best + 2 or len(scores) == len(texts) + 1
        assert len({c.text for c in answer.candidates}) == len(scores) and "" in {c.text for c in answer.candidates}
        assert answer.best is not None and texts[answer.best.text] == pytest.approx(max(texts.values()))
        shares = np.exp(np.array(scores) - max(scores))
        np.testing.assert_allclose([c.probability for c in answer.candidates], shares / shares.sum())
        for candidate in answer.candidates:
            context = examples[number].context
            assert candidate.start == -1 or context.startswith(candidate.text, candidate.start)


def test_long_contexts_are_processed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [example("a", " ".join("abcde" * 40))]
    task = Squad1Task(doc_stride=5, max_answer_length=4)
    windows = task.encode(asked, TOKENIZER, 80, labelled=False)
    drawn = np.random.default_rng(1).normal(size=(2, len(windows.token_ids))).astype(np.float32)
    outputs = dict(zip(("start_logits", "end_logits"), drawn, strict=True))
    whole = task.answers(asked, windows, outputs)
    monkeypatch.setattr(squad_answers, "_MOST_SPANS", 16)
    assert task.answers(asked, windows, outputs) == whole


@pytest.mark.parametrize("task", [Squad1Task(), Squad2Task()], ids=lambda task: task.name)
def test_a_context_without_tokens_has_no_answer(task) -> None:
    asked = [example("a", "\u200b")]
    windows = task.encode(asked, TOKENIZER, 80, labelled=False)
    outputs = {name: np.ones(len(windows.token_ids), np.float32) for name in ("start_logits", "end_logits")}
    answer = task.answers(asked, windows, outputs)[0]
    assert answer.text == "" and [c.text for c in answer.candidates] == [""] * task.may_be_impossible


def test_answer_is_the_unnormalized_text() -> None:
    asked = [example("a", "B, Be\u0301 — E\u0301b\u0301\u0323! c")]
    windows = Squad1Task().encode(asked, TOKENIZER, 80, labelled=False)
    values = np.zeros(len(windows.token_ids), np.float32)
    # Two pieces of one word; normalization strips two marks from the last piece.
    first = int(windows.first_lengths[0]) + int(np.searchsorted(windows.starts, asked[0].context.index("E")))
    values[first] = 5.0
    ends = np.roll(values, 1)
    answer = Squad1Task().answers(asked, windows, {"start_logits": values, "end_logits": ends})[0]
    assert answer.text == "E\u0301b\u0301\u0323" and asked[0].context[answer.start :].startswith(answer.text)


def test_an_ensemble_averages_probabilities_of_texts() -> None:
    first = SquadAnswer("x", 1, (Candidate("x", 1, 0.6), Candidate("", -1, 0.3), Candidate("y", 2, 0.1)), -1.0)
    second = SquadAnswer("y", 2, (Candidate("y", 2, 0.8), Candidate("z", 3, 0.2)), 2.0)
    together = average([first, second], 2, 0.6)
    assert (together.text, together.start, together.null_odds) == ("y", 2, 0.5)
    shown = [(c.text, c.start, round(c.probability, 6)) for c in together.candidates]
    assert shown == [("y", 2, 0.45), ("x", 1, 0.3), ("", -1, 0.15)]
    assert average([first, second], 2, 0.4).text == ""
    tasks = [Squad2Task(null_threshold=0.2), Squad2Task(null_threshold=1.0)]
    assert tasks[0].averaged(tasks[1:], [[first], [second]])[0].text == "y"

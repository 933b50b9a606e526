"""Windows compared with a plain loop over every span, as in the original's run_squad.py."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.encoding.batches import training_batches
from bert_tf.encoding.spans import make_windows, scored_tokens
from bert_tf.tasks.squad.task import Squad1Task, Squad2Task
from tests.support.tasks.squad_examples import LETTERS, VOCABULARY, example, tokenizer

TOKENIZER = tokenizer()


def plain_windows(size: int, room: int, stride: int) -> list[tuple[int, int]]:
    """Returns begin and size of each window."""
    windows, begin = [], 0
    while True:
        held = min(size - begin, room)
        windows.append((begin, held))
        if begin + held == size:
            return windows
        begin += min(held, stride)


def plain_best(windows: list[tuple[int, int]], token: int) -> int:
    best, best_score = -1, -1.0
    for number, (begin, held) in enumerate(windows):
        if begin <= token < begin + held:
            score = min(token - begin, begin + held - 1 - token) + 0.01 * held
            if score > best_score:
                best, best_score = number, score
    return best


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 60)), min_size=1, max_size=4),
    st.integers(10, 30),
    st.integers(1, 20),
    st.integers(1, 6),
)
def test_windows_equal_those_of_a_plain_loop(questions, length, stride, most_query) -> None:
    examples = [
        example(" ".join(LETTERS[:asked]), " ".join(LETTERS[n % 26] for n in range(size)) or "\u200b")
        for asked, size in questions
    ]
    windows = make_windows(examples, TOKENIZER, length, stride, most_query, labelled=False)
    row = 0
    scored = scored_tokens(windows, len(examples))
    for number, (asked, size) in enumerate(questions):
        query = TOKENIZER.tokenize([examples[number].question]).values[: min(asked, most_query)].tolist()
        context = TOKENIZER.tokenize([examples[number].context]).values.tolist()
        plain = plain_windows(size, length - len(query) - 3, stride)
        for begin, held in plain:
            ids = windows.token_ids[windows.row_splits[row] : windows.row_splits[row + 1]].tolist()
            expected = [VOCABULARY.cls_id, *query, VOCABULARY.sep_id, *context[begin : begin + held], VOCABULARY.sep_id]
            assert ids == expected
            assert windows.first_lengths[row] == len(query) + 2 and windows.examples[row] == number
            row += 1
        places, ends = (v[scored.splits[number] : scored.splits[number + 1]] for v in (scored.places, scored.ends))
        assert len(places) == size
        for token in range(size):
            best = row - len(plain) + plain_best(plain, token)
            assert windows.row_splits[best] <= places[token] < windows.row_splits[best + 1]
            assert windows.token_ids[places[token]] == context[token]
            assert ends[token] == windows.row_splits[best + 1] - 1
    assert row == len(windows)


@settings(max_examples=60, deadline=None)
@given(st.text("ab ,\u0301é中\u00a0\U0001f600", min_size=1, max_size=40), st.data())
def test_targets_are_the_shortest_span_that_covers_the_answer(context, data) -> None:
    begin = data.draw(st.integers(0, len(context) - 1))
    end = data.draw(st.integers(begin + 1, len(context)))
    asked = example("a", context)
    asked = type(asked)(asked.place, "q", "a", context, (type(example("a", "b", "b").answers[0])("", begin, end),))
    windows = make_windows([asked], TOKENIZER, 14, 4, 3, labelled=True)
    over = np.flatnonzero((windows.starts < end) & (windows.limits > begin))
    weighed = not windows.weights or windows.weights["start_logits"].all()
    assert weighed == (len(over) > 0)
    for row, (origin, held) in enumerate(zip(windows.origins, windows.held, strict=True)):
        expected = (0, 0)
        if len(over) and origin <= over[0] and over[-1] < origin + held:
            expected = tuple(int(token - origin + windows.first_lengths[row]) for token in (over[0], over[-1]))
        assert tuple(int(windows.targets[name][row]) for name in ("start_logits", "end_logits")) == expected


@pytest.mark.parametrize(
    ("context", "answer"),
    [("a", "a"), ("a b c d e f g h", "a"), ("a b c d e f g h", "h"), ("a b c d e f g h", "c d"), ("ab cd", "b")],
    ids=["one token", "very beginning", "very end", "in two windows", "part of a word"],
)
def test_targets_of_a_window_with_the_answer(context: str, answer: str) -> None:
    asked = example("q", context, answer)
    windows = Squad1Task(doc_stride=2, max_query_length=3).encode([asked], TOKENIZER, 8)
    pointed = 0
    for row, start in enumerate(windows.targets["start_logits"]):
        end, origin = windows.targets["end_logits"][row], windows.origins[row] - windows.first_lengths[row]
        if start:
            text = context[windows.starts[origin + start] : windows.limits[origin + end]]
            assert answer in text and len(text) <= len(answer) + 1
            pointed += 1
    assert pointed >= 1


def test_answer_longer_than_a_window_has_no_target() -> None:
    windows = Squad1Task(doc_stride=2, max_query_length=3).encode(
        [example("q", "a b c d e f g", "b c d e f")], TOKENIZER, 8
    )
    assert not windows.targets["start_logits"].any() and len(windows) == 3


def test_unanswerable_question_targets_cls() -> None:
    windows = Squad2Task().encode([example("q", "a b c"), example("q", "a b c", "b")], TOKENIZER, 100)
    assert windows.targets["end_logits"].tolist() == [0, 4] and not windows.weights


def test_contexts_are_tokenized_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    whole = TOKENIZER.tokenize_with_offsets
    monkeypatch.setattr(TOKENIZER, "tokenize_with_offsets", lambda given: texts.extend(given) or whole(given))
    Squad1Task().encode([example("q", "a b"), example("r", "c"), example("s", "a b")], TOKENIZER, 100, labelled=False)
    assert texts == ["a b", "c"]


def test_max_sequence_length_without_room_for_a_context_is_refused() -> None:
    with pytest.raises(ValueError, match="must exceed `max_query_length` by at least 4. Received: 67 and 64"):
        Squad1Task().encode([example("q", "a")], TOKENIZER, 67)


def test_windows_without_overlap_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    task = Squad1Task(max_query_length=3)
    task.encode([example("q", "a b c", "a")], TOKENIZER, 8)
    assert caplog.text == ""
    task.encode([example("q", "a b c d e f", "a")], TOKENIZER, 8)
    assert "`doc_stride` of 128 leaves windows of some contexts without overlap" in caplog.text


def test_windows_become_training_batches() -> None:
    windows = Squad1Task(doc_stride=2, max_query_length=3).encode([example("q", "a b c d e f", "c")], TOKENIZER, 8)
    inputs, targets, weights = next(iter(training_batches(windows, 2, seed=0)))
    assert inputs["token_ids"].shape[0] == targets["start_logits"].shape[0] == weights["end_logits"].shape[0] == 2

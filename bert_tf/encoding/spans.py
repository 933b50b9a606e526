"""Splits long contexts into windows: `[CLS] question [SEP] window [SEP]`.

The functions of numpy serve files and Keras; those of a graph, `GraphWindows` and its relatives, serve exports.

Windows of a question begin `stride` tokens apart, as in run_squad.py (arXiv 1810.04805). A token in several windows is
scored in the one where it has the most context, so each start of an answer is scored once.

Shape legend: Q questions, B questions of a graph, N windows, T tokens of all windows, D distinct contexts, C tokens of
all distinct contexts, P pairs of a question and a token of its context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.data.schema import END_LOGITS, PADDING_MASK, SEGMENT_IDS, START_LOGITS, TOKEN_IDS
from bert_tf.encoding.graph import padded_rows, sliced, within_groups
from bert_tf.encoding.rows import Arrays, EncodedRows
from bert_tf.text.tokenizer import Pieces, RaggedIds, TextTokenizer
from bert_tf.text.vocabulary import Vocabulary

# [CLS] and two [SEP].
_SPECIAL = 3
# Word pieces, (T,), and the index of the first one of each window, (N,).
_Pieces = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class GoldSpan:
    """A gold answer: characters `start` to `limit` (exclusive) of the context, in code points.

    `text` is as in the file, which the official scripts compare with.
    """

    text: str
    start: int
    limit: int


@dataclass(frozen=True)
class SquadExample:
    """A question about a context; `answers` are gold answers, each correct, or () without any or if not read."""

    place: str
    id: str
    question: str
    context: str
    answers: tuple[GoldSpan, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Windows(EncodedRows):
    """Encoded windows of contexts; windows of a question are consecutive and in order.

    `origins`, int64 (N,), are indices among the C tokens of each window's first context token. `starts` and `limits`,
    int32 (C,), are first character and end (exclusive) of each token in its context.
    """

    origins: np.ndarray
    starts: np.ndarray
    limits: np.ndarray

    @property
    def held(self) -> np.ndarray:
        """Context tokens in each window: int64 (N,)."""
        return self.lengths - self.first_lengths - 1


@dataclass(frozen=True)
class ScoredTokens:
    """Context tokens of all questions, each in the window where it has the most context; int64.

    `splits`, (Q + 1,), are the start offsets of each question's context tokens, and the end. `places`, (P,), are
    indices of tokens among the T tokens of all windows, and `ends`, (P,), the end (exclusive) of the context in that
    window. `origins`, (Q,), are indices among the C tokens of the first token of each question's context.
    """

    splits: np.ndarray
    places: np.ndarray
    ends: np.ndarray
    origins: np.ndarray


@dataclass(frozen=True)
class _Contexts:
    """Distinct contexts, tokenized, and the number of each question's context: int64 (Q,)."""

    tokens: RaggedIds
    starts: np.ndarray
    limits: np.ndarray
    chars: np.ndarray
    of_question: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """Number of tokens of each question's context: int64 (Q,)."""
        return np.diff(self.tokens.row_splits)[self.of_question]


def make_windows(
    examples: Sequence[SquadExample],
    tokenizer: TextTokenizer,
    length: int,
    stride: int,
    max_query_length: int,
    labelled: bool,
) -> Windows:
    """Encodes the windows of questions, at most `length` tokens each; each distinct context is tokenized once.

    Windows begin `stride` tokens apart, limited by the context tokens of a window. Questions are truncated to
    `max_query_length`, which is at least 4 less than `length`. If `labelled`, the targets `start_logits` and
    `end_logits`, int32 (N,), are first and last token of the first gold answer. They are 0 for a window without the
    whole answer and for a question without an answer. An answer whose characters the tokenizer drops has weight 0.
    """
    contexts = _tokenized(examples, tokenizer)
    queries = tokenizer.tokenize([example.question for example in examples])
    query_sizes = np.minimum(np.diff(queries.row_splits), max_query_length)
    sizes = tf.constant(query_sizes), tf.constant(contexts.sizes)
    cut = cut_in_graph(window_counts(*sizes, length, stride), *sizes, length, stride)
    of, begins, held = (values.numpy() for values in (cut.of, cut.begins, cut.held))
    first_lengths = query_sizes[of] + 2
    row_splits = np.concatenate([[0], np.cumsum(first_lengths + held + 1)])
    origins = contexts.tokens.row_splits[contexts.of_question][of] + begins
    windows = Windows(
        token_ids=_token_ids(
            tokenizer.vocabulary,
            row_splits,
            first_lengths,
            (queries.values, queries.row_splits[of]),
            (contexts.tokens.values, origins),
        ),
        row_splits=row_splits,
        first_lengths=first_lengths.astype(np.int32),
        pad_id=tokenizer.vocabulary.pad_id,
        examples=of,
        origins=origins,
        starts=contexts.starts,
        limits=contexts.limits,
    )
    if not labelled:
        return windows
    targets, weights = _targets(windows, *_gold_tokens(examples, contexts))
    return replace(windows, targets=targets, weights=weights)


def scored_tokens(windows: Windows, questions: int) -> ScoredTokens:
    """Selects the window in which each context token of Q questions is scored, as `scored_in_graph`."""
    counts = np.bincount(windows.examples, minlength=questions)
    rows = np.cumsum(counts) - counts
    held, begins = windows.held, windows.origins - np.repeat(windows.origins[rows], counts)
    last = rows + counts - 1
    step = np.where(counts > 1, begins[np.minimum(rows + 1, len(windows) - 1)], 1)
    sizes = begins[last] + held[last]
    number = np.arange(len(windows)) - np.repeat(rows, counts)
    cut = GraphWindows(*map(tf.constant, (windows.examples, number, begins, held, counts, held[rows], step)))
    found = scored_in_graph(cut, tf.constant(windows.first_lengths[rows] - 2, tf.int64), tf.constant(sizes))
    at = windows.row_splits[found.rows.numpy()]
    splits = np.concatenate([[0], np.cumsum(sizes)])
    return ScoredTokens(splits, at + found.places.numpy(), at + found.limits.numpy(), windows.origins[rows])


def _tokenized(examples: Sequence[SquadExample], tokenizer: TextTokenizer) -> _Contexts:
    numbers: dict[str, int] = {}
    of_question = [numbers.setdefault(example.context, len(numbers)) for example in examples]
    tokens, starts, limits = tokenizer.tokenize_with_offsets(list(numbers))
    return _Contexts(tokens, starts, limits, np.array([len(text) for text in numbers]), np.array(of_question))


def _token_ids(
    vocabulary: Vocabulary, row_splits: np.ndarray, first_lengths: np.ndarray, queries: _Pieces, contexts: _Pieces
) -> np.ndarray:
    """Returns the token ids of all windows."""
    ids = np.full(row_splits[-1], vocabulary.sep_id, np.int32)
    rows = row_splits[:-1]
    ids[rows] = vocabulary.cls_id
    copied = (
        (queries, rows + 1, first_lengths - 2),
        (contexts, rows + first_lengths, np.diff(row_splits) - first_lengths - 1),
    )
    for (values, sources), targets, sizes in copied:
        ids[_ranges(targets, sizes)] = values[_ranges(sources, sizes)]
    return ids


def _gold_tokens(examples: Sequence[SquadExample], contexts: _Contexts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns first and last of the C tokens of each first gold answer, and whether there is one: (Q,) each.

    They are the shortest span that covers the answer. The last token is before the first if the tokenizer drops all
    characters of the answer.
    """
    # Offsets into all contexts, concatenated with one character between them, so that one search serves all.
    bases = np.cumsum(contexts.chars + 1) - contexts.chars - 1
    token_base = np.repeat(bases, np.diff(contexts.tokens.row_splits))
    golds = [example.answers[0] if example.answers else None for example in examples]
    base = bases[contexts.of_question]
    begins = base + np.array([gold.start if gold else 0 for gold in golds])
    ends = base + np.array([gold.limit if gold else 0 for gold in golds])
    first = np.searchsorted(token_base + contexts.limits, begins, side="right")
    last = np.searchsorted(token_base + contexts.starts, ends, side="left") - 1
    return first, last, np.array([gold is not None for gold in golds])


def _targets(windows: Windows, first: np.ndarray, last: np.ndarray, has_answer: np.ndarray) -> tuple[Arrays, Arrays]:
    """Returns the targets, 0 if a window does not contain tokens `first` to `last`, and the weights."""
    of, origins = windows.examples, windows.origins
    covered = has_answer & (first <= last)
    begin, end = first[of], last[of]
    inside = covered[of] & (begin >= origins) & (end < origins + windows.held)
    targets = {
        name: np.where(inside, token - origins + windows.first_lengths, 0).astype(np.int32)
        for name, token in ((START_LOGITS, begin), (END_LOGITS, end))
    }
    # An answer without tokens must not be trained as "no answer".
    weight = (covered | ~has_answer)[of].astype(np.float32)
    return targets, {} if weight.all() else dict.fromkeys(targets, weight)


def _ranges(begins: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Returns the concatenated ranges `begins[i], ..., begins[i] + sizes[i] - 1`."""
    ends = np.cumsum(sizes)
    return np.repeat(begins - ends + sizes, sizes) + np.arange(ends[-1] if len(ends) else 0)


class GraphWindows(NamedTuple):
    """Windows of contexts, grouped by question and in order."""

    of: tf.Tensor  # (N,), index of the question
    number: tf.Tensor  # (N,), index of the window within its question
    begins: tf.Tensor  # (N,), index of the first token of the window in its context
    held: tf.Tensor  # (N,), number of context tokens in the window
    counts: tf.Tensor  # (B,), number of windows of each question
    room: tf.Tensor  # (B,), number of context tokens that fit into a window
    step: tf.Tensor  # (B,), number of tokens from the start of one window to the start of the next


class GraphTokens(NamedTuple):
    """Tokens of all contexts, each in the window that has the most context around it."""

    rows: tf.Tensor  # (P,), index of that window
    places: tf.Tensor  # (P,), position of the token in its row
    limits: tf.Tensor  # (P,), position after the last context token in its row


def window_counts(query_sizes: tf.Tensor, context_sizes: tf.Tensor, length: int, stride: int) -> tf.Tensor:
    """Returns the number of windows of each context, (B,)."""
    room, step = _room_and_step(query_sizes, length, stride)
    return tf.where(context_sizes <= room, tf.ones_like(room), 1 - ((room - context_sizes) // step))


def cut_in_graph(
    counts: tf.Tensor, query_sizes: tf.Tensor, context_sizes: tf.Tensor, length: int, stride: int
) -> GraphWindows:
    """Cuts contexts into windows of at most `length` tokens, whose starts are at most `stride` tokens apart.

    `counts` (B,) are from `window_counts`; the sizes (B,) are numbers of tokens.
    """
    room, step = _room_and_step(query_sizes, length, stride)
    of, number = within_groups(counts)
    begins = number * tf.gather(step, of)
    held = tf.minimum(tf.gather(room, of), tf.gather(context_sizes, of) - begins)
    return GraphWindows(of, number, begins, held, counts, room, step)


def rows_in_graph(
    windows: GraphWindows, queries: tf.RaggedTensor, contexts: Pieces, vocabulary: Vocabulary, length: int
) -> dict[str, tf.Tensor]:
    """Returns the rows `[CLS] question [SEP] window [SEP]` as the model's inputs, (N, up to `length`) int32."""
    query = tf.gather(queries, windows.of)
    origins = tf.gather(contexts.ids.row_starts(), windows.of) + windows.begins
    held = sliced(contexts.ids.values, origins, windows.held)
    one = tf.ones_like(windows.of, tf.int32)[:, tf.newaxis]
    cls, sep = one * vocabulary.cls_id, one * vocabulary.sep_id
    token_ids = tf.concat([cls, query, sep, held, sep], axis=1)
    second = tf.ones_like(tf.concat([held, sep], axis=1))
    segment_ids = tf.concat([tf.zeros_like(tf.concat([cls, query, sep], axis=1)), second], axis=1)
    return padded_rows(
        {
            TOKEN_IDS: token_ids.to_tensor(vocabulary.pad_id),
            SEGMENT_IDS: segment_ids.to_tensor(),
            PADDING_MASK: tf.ones_like(token_ids).to_tensor(),
        },
        vocabulary,
        length,
    )


def scored_in_graph(windows: GraphWindows, query_sizes: tf.Tensor, context_sizes: tf.Tensor) -> GraphTokens:
    """Returns the window and the position in which each context token is scored.

    The context of a token in a window is the smaller of the token counts to its left and right, plus a hundredth of
    the window's size. The token is scored in the first window with the most context (as in run_squad.py). All windows
    of a question except the last hold `room` tokens; among these, the window with the nearest middle is chosen.
    """
    of, token = within_groups(context_sizes)
    counts, step, room = (tf.gather(each, of) for each in (windows.counts, windows.step, windows.room))
    # A context that is shorter than the room has a single window of its own size.
    room = tf.minimum(room, tf.gather(context_sizes, of))
    nearest = -((step + room - 1 - 2 * token) // (2 * step))
    full = tf.clip_by_value(nearest, 0, tf.maximum(counts - 2, 0))
    begin, last_begin = full * step, (counts - 1) * step
    right = begin + room - 1 - token
    in_last = _context_of(token - last_begin, tf.gather(context_sizes, of) - 1 - token) > _context_of(
        token - begin, right
    )
    number = tf.where((token >= last_begin) & (in_last | (right < 0)), counts - 1, full)
    rows = tf.gather(tf.cumsum(windows.counts, exclusive=True), of) + number
    # After [CLS], the question and [SEP].
    first = tf.gather(query_sizes, of) + 2
    return GraphTokens(rows, first + token - tf.gather(windows.begins, rows), first + tf.gather(windows.held, rows))


def _context_of(left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    return 100 * tf.minimum(left, right) + left + right + 1


def _room_and_step(query_sizes: tf.Tensor, length: int, stride: int) -> tuple[tf.Tensor, tf.Tensor]:
    room = length - _SPECIAL - query_sizes
    return room, tf.minimum(room, stride)

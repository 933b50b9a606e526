"""Windows over contexts that are longer than a row, cut and scored as in `bert_tf.tasks.squad.windows`.

Shape legend: B questions, N windows, P tokens of all contexts. All numbers are int64.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from bert_tf.data.schema import PADDING_MASK, SEGMENT_IDS, TOKEN_IDS
from bert_tf.export.kinds.base import padded_rows
from bert_tf.export.kinds.rows import sliced, within_groups
from bert_tf.text.tokenizer import Pieces
from bert_tf.text.vocabulary import Vocabulary

# [CLS] and two [SEP].
_SPECIAL = 3


class SpanWindows(NamedTuple):
    """Windows of contexts, grouped by question and in order."""

    of: tf.Tensor  # (N,), index of the question
    number: tf.Tensor  # (N,), index of the window within its question
    begins: tf.Tensor  # (N,), index of the first token of the window in its context
    held: tf.Tensor  # (N,), number of context tokens in the window
    counts: tf.Tensor  # (B,), number of windows of each question
    room: tf.Tensor  # (B,), number of context tokens that fit into a window
    step: tf.Tensor  # (B,), number of tokens from the start of one window to the start of the next


class ScoredTokens(NamedTuple):
    """Tokens of all contexts, each in the window that has the most context around it."""

    rows: tf.Tensor  # (P,), index of that window
    places: tf.Tensor  # (P,), position of the token in its row
    limits: tf.Tensor  # (P,), position after the last context token in its row


def window_counts(query_sizes: tf.Tensor, context_sizes: tf.Tensor, length: int, stride: int) -> tf.Tensor:
    """Returns the number of windows of each context, (B,)."""
    room, step = _room_and_step(query_sizes, length, stride)
    return tf.where(context_sizes <= room, tf.ones_like(room), 1 - ((room - context_sizes) // step))


def cut(counts: tf.Tensor, query_sizes: tf.Tensor, context_sizes: tf.Tensor, length: int, stride: int) -> SpanWindows:
    """Cuts contexts into windows of at most `length` tokens, whose starts are at most `stride` tokens apart.

    `counts` (B,) are from `window_counts`; the sizes (B,) are numbers of tokens.
    """
    room, step = _room_and_step(query_sizes, length, stride)
    of, number = within_groups(counts)
    begins = number * tf.gather(step, of)
    held = tf.minimum(tf.gather(room, of), tf.gather(context_sizes, of) - begins)
    return SpanWindows(of, number, begins, held, counts, room, step)


def rows_of(
    windows: SpanWindows, queries: tf.RaggedTensor, contexts: Pieces, vocabulary: Vocabulary, length: int
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


def scored_tokens(windows: SpanWindows, query_sizes: tf.Tensor, context_sizes: tf.Tensor) -> ScoredTokens:
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
    in_last = _context(token - last_begin, tf.gather(context_sizes, of) - 1 - token) > _context(token - begin, right)
    number = tf.where((token >= last_begin) & (in_last | (right < 0)), counts - 1, full)
    rows = tf.gather(tf.cumsum(windows.counts, exclusive=True), of) + number
    # After [CLS], the question and [SEP].
    first = tf.gather(query_sizes, of) + 2
    return ScoredTokens(rows, first + token - tf.gather(windows.begins, rows), first + tf.gather(windows.held, rows))


def _context(left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    return 100 * tf.minimum(left, right) + left + right + 1


def _room_and_step(query_sizes: tf.Tensor, length: int, stride: int) -> tuple[tf.Tensor, tf.Tensor]:
    room = length - _SPECIAL - query_sizes
    return room, tf.minimum(room, stride)

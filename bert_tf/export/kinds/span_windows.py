"""Windows over contexts that are longer than a row, cut and scored as `bert_tf.tasks.squad.windows` does it.

Shape legend: B questions, N windows, P tokens of all contexts. All numbers are int64.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from bert_tf.data.schema import PADDING_MASK, SEGMENT_IDS, TOKEN_IDS
from bert_tf.export.kinds.base import never_empty
from bert_tf.export.kinds.rows import sliced, within_groups
from bert_tf.text.tokenizer import Pieces
from bert_tf.text.vocabulary import Vocabulary

# [CLS] and two [SEP].
_SPECIAL = 3


class SpanWindows(NamedTuple):
    """Windows of contexts; those of a question stand together, in order.

    Args:
        of: (N,), the question.
        number: (N,), of the window among those of its question.
        begins: (N,), the token of its context that it begins with.
        held: (N,), how many tokens of the context it holds.
        counts: (B,), windows of each question.
        room: (B,), tokens of a context that a window has room for.
        step: (B,), tokens from the beginning of one window to that of the next.
    """

    of: tf.Tensor
    number: tf.Tensor
    begins: tf.Tensor
    held: tf.Tensor
    counts: tf.Tensor
    room: tf.Tensor
    step: tf.Tensor


class ScoredTokens(NamedTuple):
    """The tokens of all contexts, each at its place in the window where it has the most context.

    Args:
        rows: (P,), that window.
        places: (P,), place of the token in its row.
        limits: (P,), place after the last token of the context in its row.
    """

    rows: tf.Tensor
    places: tf.Tensor
    limits: tf.Tensor


def window_counts(query_sizes: tf.Tensor, context_sizes: tf.Tensor, length: int, stride: int) -> tf.Tensor:
    """Returns how many windows each context makes, (B,)."""
    room, step = _room_and_step(query_sizes, length, stride)
    return tf.where(context_sizes <= room, tf.ones_like(room), 1 - ((room - context_sizes) // step))


def cut(counts: tf.Tensor, query_sizes: tf.Tensor, context_sizes: tf.Tensor, length: int, stride: int) -> SpanWindows:
    """Cuts contexts into windows.

    Args:
        counts: (B,), from `window_counts`.
        query_sizes: (B,), tokens of a question.
        context_sizes: (B,), tokens of a context.
        length: tokens of a row at most.
        stride: tokens from the beginning of one window to that of the next at most.
    """
    room, step = _room_and_step(query_sizes, length, stride)
    of, number = within_groups(counts)
    begins = number * tf.gather(step, of)
    held = tf.minimum(tf.gather(room, of), tf.gather(context_sizes, of) - begins)
    return SpanWindows(of, number, begins, held, counts, room, step)


def rows_of(
    windows: SpanWindows, queries: tf.RaggedTensor, contexts: Pieces, vocabulary: Vocabulary
) -> dict[str, tf.Tensor]:
    """Returns `[CLS] question [SEP] window [SEP]` of all windows as the model's inputs, (N, S) int32."""
    query = tf.gather(queries, windows.of)
    origins = tf.gather(contexts.ids.row_starts(), windows.of) + windows.begins
    held = sliced(contexts.ids.values, origins, windows.held)
    one = tf.ones_like(windows.of, tf.int32)[:, tf.newaxis]
    cls, sep = one * vocabulary.cls_id, one * vocabulary.sep_id
    token_ids = tf.concat([cls, query, sep, held, sep], axis=1)
    second = tf.ones_like(tf.concat([held, sep], axis=1))
    segment_ids = tf.concat([tf.zeros_like(tf.concat([cls, query, sep], axis=1)), second], axis=1)
    return never_empty(
        {
            TOKEN_IDS: token_ids.to_tensor(vocabulary.pad_id),
            SEGMENT_IDS: segment_ids.to_tensor(),
            PADDING_MASK: tf.ones_like(token_ids).to_tensor(),
        }
    )


def scored_tokens(windows: SpanWindows, query_sizes: tf.Tensor, context_sizes: tf.Tensor) -> ScoredTokens:
    """Returns where each token of each context is scored.

    It has the most context where the smaller of the numbers of tokens to its left and right is the largest, a hundredth
    of the tokens that a window holds added; of equal windows it is the first (as in run_squad.py). All windows of a
    question but the last hold `room` tokens: of these it is the one whose middle is the nearest.
    """
    of, token = within_groups(context_sizes)
    counts, step, room = (tf.gather(each, of) for each in (windows.counts, windows.step, windows.room))
    # What a single window holds, all of a context that is shorter than the room.
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

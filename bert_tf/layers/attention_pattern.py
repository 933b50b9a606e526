"""Attention patterns: the tokens that each token sees, and the computation of attention in parts of long rows.

Shape legend: B batch, S sequence, N heads, D width of a head; C parts, Q queries and K keys of a part.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from keras import ops

from bert_tf.config import BertConfig

# Large enough that adding it rounds every score away: a fully masked row has equal, finite weights.
_NEVER = -1e9
# Rows of up to this many tokens are computed whole: the longest rows of the paper.
_LONGEST_WHOLE = 512
# Queries of a block: with 12 heads and 8,192 tokens, the float32 scores of a block take 100 MB.
_QUERIES = 256
# Windows are not narrower, so that their matrix products are not too small.
_NARROWEST = 64


@dataclass(frozen=True)
class AttentionPattern:
    """The tokens that each token sees.

    Padding is never seen; outputs at padding positions are undefined. In packed rows (`data.input.packing`), tokens see
    only the tokens of their example.

    Args:
        left_to_right: whether a token sees only itself and earlier tokens ("LTR" in Table 5 of the paper).
        reach: distance up to which tokens see each other; None for any.
        max_length: length of the longest rows; None for any. Rows of more than 512 tokens are computed in parts.
    """

    left_to_right: bool = False
    reach: int | None = None
    max_length: int | None = None

    @classmethod
    def of(cls, config: BertConfig, layer: int) -> AttentionPattern:
        """Returns the pattern of a layer, counted from 1."""
        reach = None if config.sees_all(layer) else config.local_attention // 2
        return cls(config.attention == "left_to_right", reach, config.max_sequence_length)

    def mask(self, padding_mask, example_ids=None):
        """Returns the additive mask of whole rows: 0 for tokens that are seen, -1e9 for others.

        Args:
            padding_mask: (B, S) int32, 1 for tokens, 0 for padding.
            example_ids: (B, S) int32 of packed rows; None for one example in each row.

        Returns:
            float32 (B, 1, 1, S), or (B, 1, S, S) if it depends on the position of the query.
        """
        distance = None
        if self.left_to_right or self.reach is not None:
            positions = ops.arange(ops.shape(padding_mask)[1])
            distance = ops.expand_dims(positions, axis=1) - ops.expand_dims(positions, axis=0)
        return self._mask(padding_mask, example_ids, example_ids, distance)

    def _mask(self, padding_mask, example_ids, query_examples, distance):
        """Returns the mask of keys, (B, K), and queries at `distance`, (Q, K), after them."""
        seen = ops.expand_dims(ops.not_equal(padding_mask, 0), axis=1)
        if example_ids is not None:
            same = ops.equal(ops.expand_dims(query_examples, axis=2), ops.expand_dims(example_ids, axis=1))
            seen = ops.logical_and(seen, same)
        if self.left_to_right:
            seen = ops.logical_and(seen, ops.expand_dims(distance >= 0, axis=0))
        if self.reach is not None:
            seen = ops.logical_and(seen, ops.expand_dims(ops.abs(distance) <= self.reach, axis=0))
        return ops.expand_dims(ops.where(seen, 0.0, _NEVER), axis=1)

    def by_length(self, length, whole: Callable[[], Any], parts: Callable[[], Any], training: bool = False):
        """Returns the result of `whole`, or of `parts` for rows so long that it needs less time or memory.

        In training, rows of unknown length are computed in parts, because XLA cannot differentiate a condition on it.
        """
        limit = self._longest_whole
        if self.max_length is not None and self.max_length <= limit:
            return whole()
        if isinstance(length, int):
            return parts() if length > limit else whole()
        return parts() if training else ops.cond(length > limit, parts, whole)

    def keys_per_query(self, length: float) -> float:
        """Returns the number of keys that are compared with each query in rows of a length."""
        if self.reach is None or length <= self._longest_whole:
            return length
        return self._window * (2 if self.left_to_right else 3)

    @property
    def _longest_whole(self) -> int:
        return _LONGEST_WHOLE if self.reach is None else 4 * self._window

    @property
    def _window(self) -> int:
        """Queries of a window, which see nothing beyond the windows next to theirs."""
        return max(self.reach or 0, _NARROWEST)

    def windows(self, kernel: Callable[..., Any], query, key, value, padding_mask, example_ids=None):
        """Returns the weighted values, (B, S, N, D), of a pattern with a reach; time and memory grow with S.

        Args:
            kernel: function of queries (B C, Q, N, D), keys and values (B C, K, N, D), and a mask (B C, 1, Q, K).
            query: (B, S, N, D).
            key: (B, S, N, D).
            value: (B, S, N, D).
            padding_mask: (B, S) int32, 1 for tokens, 0 for padding.
            example_ids: (B, S) int32 of packed rows; None for one example in each row.
        """
        width = self._window
        length = ops.shape(query)[1]

        def windowed(values, neighbors: bool):
            """Returns (B C, Q or K, …): each window, with the windows before and, unless left to right, after it."""
            parts = _split(values, width)
            if neighbors:
                none = ops.zeros_like(parts[:, :1])
                near = [ops.concatenate([none, parts[:, :-1]], axis=1), parts]
                near += [] if self.left_to_right else [ops.concatenate([parts[:, 1:], none], axis=1)]
                parts = ops.concatenate(near, axis=2)
            return ops.reshape(parts, (-1, *parts.shape[2:]))

        keys = windowed(padding_mask, neighbors=True)
        distance = width + ops.expand_dims(ops.arange(width), axis=1) - ops.arange(keys.shape[1])
        examples = (None, None)
        if example_ids is not None:
            examples = windowed(example_ids, neighbors=True), windowed(example_ids, neighbors=False)
        mask = self._mask(keys, *examples, distance)
        weighted = kernel(windowed(query, False), windowed(key, True), windowed(value, True), mask)
        return _joined(weighted, length)

    def blocks(
        self,
        query,
        key,
        value,
        padding_mask,
        example_ids=None,
        drop: Callable[..., Any] | None = None,
        seed=None,
    ):
        """Returns the weighted values, (B, S, N, D), computed for one block of queries after the other.

        Memory grows with S. The backward pass computes the attention weights of a block again.

        Args:
            query: (B, S, N, D).
            key: (B, S, N, D).
            value: (B, S, N, D).
            padding_mask: (B, S) int32, 1 for tokens, 0 for padding.
            example_ids: (B, S) int32 of packed rows; None for one example in each row.
            drop: linear function of attention weights, `seed` and the number of their block, for dropout.
            seed: integers; None for no dropout.
        """
        scale, dtype = 1.0 / math.sqrt(query.shape[-1]), query.dtype
        given = {"padding_mask": padding_mask, "example_ids": example_ids, "seed": seed}
        names = [name for name, tensor in given.items() if tensor is not None]

        # The gradient may read only tensors of the graph in which it stands; integers have no gradient.
        @ops.custom_gradient
        def attention(query, key, value, *integers):
            rest = dict(zip(names, integers, strict=True))
            padding_mask, example_ids = rest["padding_mask"], rest.get("example_ids")
            length = ops.shape(padding_mask)[1]
            keys, values = (ops.transpose(each, (0, 2, 1, 3)) for each in (key, value))
            queries = _blocks(query * scale)
            examples = None if example_ids is None else ops.moveaxis(_split(example_ids, _QUERIES), 1, 0)
            count = ops.shape(queries)[0]

            def weights_of(number, queries):
                distance = None
                if self.left_to_right:
                    positions = number * _QUERIES + ops.arange(_QUERIES)
                    distance = ops.expand_dims(positions, axis=1) - ops.arange(length)
                of_queries = None if examples is None else ops.take(examples, number, axis=0)
                mask = self._mask(padding_mask, example_ids, of_queries, distance)
                return ops.softmax(ops.cast(_by_transposed(queries, keys), "float32") + mask)

            def dropped(weights, number):
                return weights if drop is None or "seed" not in rest else drop(weights, rest["seed"], number)

            def forward(number, outputs):
                weights = dropped(weights_of(number, ops.take(queries, number, axis=0)), number)
                return (_put(outputs, number, ops.matmul(ops.cast(weights, dtype), values)),)

            def gradient(*args, upstream=None):
                gradients = _blocks(args[0] if upstream is None else upstream)

                def backward(number, of_query, of_key, of_value):
                    query, gradient = (ops.take(each, number, axis=0) for each in (queries, gradients))
                    weights = weights_of(number, query)
                    of_value += _of_transposed(ops.cast(dropped(weights, number), dtype), gradient)
                    of_weights = dropped(ops.cast(_by_transposed(gradient, values), "float32"), number)
                    of_scores = weights * (of_weights - ops.sum(of_weights * weights, axis=-1, keepdims=True))
                    of_scores = ops.cast(of_scores, dtype)
                    of_key += _of_transposed(of_scores, query)
                    return _put(of_query, number, ops.matmul(of_scores, keys) * scale), of_key, of_value

                # The sums over blocks are in float32.
                zeros = ops.zeros_like(keys, dtype="float32")
                of_query, *sums = _in_turn(count, backward, _table(queries), zeros, zeros)
                of_keys = [ops.transpose(ops.cast(each, dtype), (0, 2, 1, 3)) for each in sums]
                return (_unblocked(_blocks_in(of_query, queries), length), *of_keys, *(None for _ in integers))

            (outputs,) = _in_turn(count, forward, _table(queries))
            return _unblocked(_blocks_in(outputs, queries), length), gradient

        return attention(*map(ops.copy, (query, key, value, *(given[name] for name in names))))


def _split(values, width: int):
    """Returns (B, C, width, …) of (B, S, …), with zeros after the end."""
    length = ops.shape(values)[1]
    count = (length + width - 1) // width
    padded = ops.pad(values, [[0, 0], [0, count * width - length], *([[0, 0]] * (len(values.shape) - 2))])
    return ops.reshape(padded, (-1, count, width, *values.shape[2:]))


def _joined(parts, length):
    """Returns (B, S, N, D) of (B C, width, N, D)."""
    width = parts.shape[1]
    count = (length + width - 1) // width
    return ops.reshape(parts, (-1, count * width, *parts.shape[2:]))[:, :length]


def _blocks(values):
    """Returns blocks of queries, (C, B, N, Q, D), of (B, S, N, D)."""
    return ops.transpose(_split(values, _QUERIES), (1, 0, 3, 2, 4))


def _unblocked(blocks, length):
    """Returns (B, S, N, D) of blocks, (C, B, N, Q, D)."""
    parts = ops.transpose(blocks, (1, 0, 3, 2, 4))
    return _joined(ops.reshape(parts, (-1, *parts.shape[2:])), length)


def _in_turn(count, body: Callable[..., Any], table, *sums):
    """Returns the table and the sums after `body` has changed them for each block, by its number, one by one."""

    def step(number, table, *sums):
        table, *sums = body(number, table, *sums)
        # The next number depends on the table, whose spare column is 0: TensorFlow would compute ten blocks at once.
        return number + 1 + ops.cast(table[0, -1], "int32"), table, *sums

    first = ops.convert_to_tensor(0, "int32")
    return ops.while_loop(lambda number, *_: number < count, step, (first, table, *sums))[1:]


def _table(blocks):
    """Returns a table of zeros with a row for each block; TensorFlow cannot update one without columns."""
    return _with_column(ops.reshape(ops.zeros_like(blocks), (ops.shape(blocks)[0], -1)))


def _put(table, number, block):
    """Returns the table with a block in the row `number`."""
    # TensorFlow asks every operation under a tape for a gradient, which `slice_update` does not have.
    row = _with_column(ops.reshape(block, (1, -1)))
    return ops.scatter_update(table, ops.reshape(number, (1, 1)), row)


def _blocks_in(table, blocks):
    """Returns the blocks in a table, with the shape of `blocks`."""
    return ops.reshape(table[:, :-1], ops.shape(blocks))


def _with_column(rows):
    return ops.pad(rows, [[0, 0], [0, 1]])


def _by_transposed(first, second):
    return ops.matmul(first, ops.transpose(second, (0, 1, 3, 2)))


def _of_transposed(first, second):
    return ops.cast(ops.matmul(ops.transpose(first, (0, 1, 3, 2)), second), "float32")

"""What a model says to rows: batches of about one length, as large as memory allows, put back in order.

Shape legend: N rows, T tokens of all rows.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

from bert_tf.config import BertConfig
from bert_tf.data.schema import PADDING_MASK
from bert_tf.tasks.rows import Arrays, EncodedRows
from bert_tf.training.backends import Model
from bert_tf.training.losses import SINGLE_OUTPUT

# Beyond these, a batch gains nothing on a processor; below, little of what it costs to call the model is spread.
_MOST_TOKENS, _LEAST_TOKENS = 8192, 512
_SHARE_OF_MEMORY = 0.25
_SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """Lines on stderr with count, rate and time left.

    Args:
        what: the things counted, for example `rows`.
        total: how many there are; None where that is not known.
    """

    def __init__(self, what: str, total: int | None = None) -> None:
        self._what, self._total, self._count = what, total, 0
        self._began = self._shown = time.monotonic()

    def add(self, count: int) -> None:
        """Counts; says so every few seconds."""
        self._count += count
        now = time.monotonic()
        if now - self._shown < _SECONDS_BETWEEN_LINES:
            return
        self._shown = now
        rate = self._count / (now - self._began)
        of_all = f" of {self._total}, {(self._total - self._count) / rate:.0f} s left" if self._total else ""
        print(f"{self._count} {self._what}{of_all}, {rate:.0f} a second", file=sys.stderr, flush=True)


def outputs_of(
    model: Model, rows: EncodedRows, config: BertConfig, by_token: bool, done: Callable[[int], None] = lambda _: None
) -> Arrays:
    """Returns what `model` gives for all rows.

    Args:
        model: as a function of numpy arrays (`training.engine.Backend.caller`).
        rows: the rows; targets are not read.
        config: the encoder's, for the memory of a batch.
        by_token: whether outputs are one a token, (B, S, ...), and not one a row, (B, ...).
        done: told the rows of every batch.

    Returns:
        By output name (`SINGLE_OUTPUT` where the model gives one tensor), float32 (N, ...) in the order of the rows,
        or (T, ...) as `rows.token_ids`.
    """
    found: Arrays = {}
    for batch in batches_by_length(rows, most_tokens(config, rows.longest)):
        inputs = rows.inputs(batch)
        outputs = model(inputs)
        for name, values in (outputs if isinstance(outputs, dict) else {SINGLE_OUTPUT: outputs}).items():
            shape = (len(rows.token_ids), *values.shape[2:]) if by_token else (len(rows), *values.shape[1:])
            whole = found.setdefault(name, np.zeros(shape, np.float32))
            if by_token:
                begins = rows.row_splits[batch][:, None]
                there = inputs[PADDING_MASK] == 1
                whole[(begins + np.arange(there.shape[1]))[there]] = values[there]
            else:
                whole[batch] = values
        done(len(batch))
    return found


def batches_by_length(rows: EncodedRows, tokens: int, begin: int = 0) -> Iterator[np.ndarray]:
    """Yields the numbers of all rows, the longest first, in batches of at most `tokens` with their padding.

    Args:
        rows: the rows.
        tokens: of a batch, at most where it has several rows.
        begin: how many rows to leave out at the beginning.
    """
    order = np.argsort(-rows.lengths, kind="stable")
    while begin < len(order):
        width = rows.width(order[begin : begin + 1]) * rows.choices
        count = max(1, tokens // width)
        yield order[begin : begin + count]
        begin += count


def most_tokens(config: BertConfig, longest: int) -> int:
    """Returns the tokens of a batch that a share of the free memory holds.

    Args:
        config: the encoder's.
        longest: tokens of the longest row.
    """
    # Float32: the widest layer twice, a few of the hidden width, and the attention of a token to all others twice.
    per_token = 4 * (2 * config.intermediate_dim + 6 * config.hidden_dim + 2 * config.num_heads * longest)
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return int(np.clip(_SHARE_OF_MEMORY * free / per_token, _LEAST_TOKENS, _MOST_TOKENS))

"""Order of the serialized records in training: a pure function of seed and position.

`tf_order` reads the same records in the same order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from bert_tf.data.input.dataset import Split
from bert_tf.data.randomness import stream_keys
from bert_tf.data.tfrecord.shards import read_shard

# Size of the shuffle window in records: 5 MB of dynamic records of 128 tokens. Shards are already uniform samples of
# the corpus in random order, so the window only has to change the neighbours of a record in every epoch.
WINDOW = 16384

# Serialized records and their keys, uint64 [n].
Keyed = tuple[list[bytes], np.ndarray]


class Shards:
    """The shards of one split and the order of their records.

    The stream is a sequence of epochs. An epoch is the shards in an order drawn from (seed, epoch), cut into windows.
    Each window is sorted by the keys of its records. The key of a record is drawn from (seed, epoch, shard, index in
    the shard) and does not depend on the batch size.

    Args:
        split: the split, with at least one example.
    """

    def __init__(self, split: Split) -> None:
        self._paths = list(split.paths)
        self._counts = np.array(split.counts, np.int64)
        self._examples = int(self._counts.sum())
        self._seed = split.seed


class RecordOrder(Shards):
    """Reads the shards of one split in the order of `Shards`."""

    def shuffled(self, start: int, epochs: int | None) -> Iterator[Keyed]:
        """Yields the shuffled stream from sample number `start` on.

        Whole shards and windows before `start` are skipped. Records are not parsed.

        Args:
            start: number of samples to skip.
            epochs: total number of epochs, `None` for unlimited.

        Yields:
            Records and their keys, one window at a time.
        """
        first_epoch, within = divmod(start, self._examples)
        window, offset = divmod(within, WINDOW)
        for epoch in itertools.count(first_epoch) if epochs is None else range(first_epoch, epochs):
            for records, keys in self._windows(epoch, window):
                kept = np.argsort(keys, kind="stable")[offset:]
                yield [records[number] for number in kept.tolist()], keys[kept]
                offset = 0
            window = 0

    def in_file_order(self, batch_size: int) -> Iterator[Keyed]:
        """Yields one pass in file order: records and keys, `batch_size` at a time except for the last."""
        order = np.arange(len(self._paths))
        yield from self._pieces(0, order, 0, batch_size)

    def _windows(self, epoch: int, window: int) -> Iterator[Keyed]:
        """Yields the unsorted windows of an epoch from number `window` on."""
        order = np.argsort(stream_keys(self._seed, epoch, np.arange(len(self._paths))), kind="stable")
        return self._pieces(epoch, order, window * WINDOW, WINDOW)

    def _pieces(self, epoch: int, order: np.ndarray, start: int, size: int) -> Iterator[Keyed]:
        """Yields the records of the shards in `order` from position `start` on, `size` at a time."""
        ends = np.cumsum(self._counts[order])
        whole = int(np.searchsorted(ends, start, side="right"))
        before = int(ends[whole - 1]) if whole else 0
        paths = [self._paths[shard] for shard in order[whole:]]
        records = itertools.islice(itertools.chain.from_iterable(map(read_shard, paths)), start - before, None)
        while piece := list(itertools.islice(records, size)):
            yield piece, self._keys(epoch, order, ends, np.arange(start, start + len(piece)))
            start += len(piece)

    def _keys(self, epoch: int, order: np.ndarray, ends: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Returns the keys of the records at `positions` of an epoch: uint64 [n]."""
        rank = np.searchsorted(ends, positions, side="right")
        shard = order[rank]
        return stream_keys(self._seed, epoch, shard, positions - ends[rank] + self._counts[shard])

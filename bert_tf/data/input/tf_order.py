"""Records as `tf.data` datasets, in the order of `order.RecordOrder`."""

from __future__ import annotations

import tensorflow as tf

from bert_tf.data.input.order import WINDOW, Shards
from bert_tf.data.masking.tf_randomness import stream_keys


class RecordOrder(Shards):
    """Reads the shards of one split in the order of `Shards`, as datasets."""

    def shuffled(self, start: int, epochs: int | None) -> tf.data.Dataset:
        """Returns the shuffled stream from sample number `start` on.

        Whole shards and windows before `start` are not read. Records are not parsed.

        Args:
            start: number of samples to skip.
            epochs: total number of epochs, `None` for unlimited.

        Returns:
            A dataset of vectors (serialized string [n], keys uint64 [n]), n varying.
        """
        first_epoch, within = divmod(start, self._examples)
        first_window, offset = divmod(within, WINDOW)

        def one_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
            order = tf.argsort(stream_keys(self._seed, epoch, tf.range(len(self._paths))))
            ends = tf.cumsum(tf.gather(self._counts, order))
            window = tf.where(epoch == first_epoch, tf.constant(first_window, tf.int64), 0)
            skipped = window * WINDOW
            whole = tf.searchsorted(ends, skipped[tf.newaxis], side="right")[0]
            before = tf.concat([[0], ends], axis=0)[whole]
            records = tf.data.TFRecordDataset(tf.gather(self._names, order[whole:]))
            windows = records.skip(skipped - before).batch(WINDOW)
            numbers = tf.data.Dataset.range(window, tf.int64.max)

            def sorted_window(number: tf.Tensor, serialized: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                positions = number * WINDOW + tf.range(tf.size(serialized, tf.int64))
                keys = self._keys(epoch, order, ends, positions)
                starts_here = (epoch == first_epoch) & (number == first_window)
                kept = tf.argsort(keys)[tf.where(starts_here, offset, 0) :]
                return tf.gather(serialized, kept), tf.gather(keys, kept)

            return tf.data.Dataset.zip((numbers, windows)).map(sorted_window)

        last_epoch = tf.int64.max if epochs is None else max(first_epoch, epochs)
        return tf.data.Dataset.range(first_epoch, last_epoch).flat_map(one_epoch).prefetch(1)

    def in_file_order(self, batch_size: int) -> tf.data.Dataset:
        """Returns one pass in file order.

        Args:
            batch_size: records per batch.

        Returns:
            A dataset of vectors (serialized string [n], keys uint64 [n]), n = `batch_size` except for the last.
        """
        order = tf.range(len(self._paths))
        ends = tf.cumsum(tf.constant(self._counts))

        def keyed(number: tf.Tensor, serialized: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            positions = number * batch_size + tf.range(tf.size(serialized, tf.int64))
            return serialized, self._keys(0, order, ends, positions)

        return tf.data.TFRecordDataset(self._names).batch(batch_size).enumerate().map(keyed)

    @property
    def _names(self) -> list[str]:
        return list(map(str, self._paths))

    def _keys(self, epoch: tf.Tensor | int, order: tf.Tensor, ends: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
        """Returns the keys of the records at `positions` of an epoch: uint64 [n]."""
        rank = tf.searchsorted(ends, positions, side="right")
        shard = tf.gather(order, rank)
        record = positions - tf.gather(ends, rank) + tf.gather(self._counts, shard)
        return stream_keys(self._seed, epoch, shard, record)

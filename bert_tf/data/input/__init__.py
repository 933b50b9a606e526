"""Input pipelines: record order, batches, packing and padding."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from bert_tf.data.input.dataset import Batch, Batches, Dataset, RowShare
from bert_tf.data.input.packing import pack_batch


def pretraining_data(directory: str | Path, split: str, **options: Any) -> Dataset:
    """Returns pre-training batches from tf.data if TensorFlow is installed, else the same batches from numpy.

    The options are the fields of `BatchOptions`.
    """
    if importlib.util.find_spec("tensorflow") is None:
        from bert_tf.data.input.numpy import pretraining_batches

        return pretraining_batches(directory, split, **options)
    from bert_tf.data.input.tf import pretraining_dataset

    return pretraining_dataset(directory, split, **options)


def own_rows(batches: Dataset, share: RowShare) -> Dataset:
    """Returns the rows of a share of each batch of any pipeline. Whole batches are made."""
    if share.count == 1:
        return batches
    if isinstance(batches, Batches):

        def of(batch: Batch) -> Any:
            return tuple({name: values[share.of(len(values))] for name, values in part.items()} for part in batch)

        return Batches(lambda: map(of, batches))
    from bert_tf.data.input.tf_padding import own_rows

    return own_rows(batches, share)


def packed_data(batches: Dataset, multiple: int) -> Dataset:
    """Packs each batch of either pipeline with `packing.pack_batch`; the number of rows is a multiple of `multiple`."""
    if isinstance(batches, Batches):
        return Batches(lambda: (pack_batch(inputs, targets, weights, multiple) for inputs, targets, weights in batches))
    from bert_tf.data.input.tf_padding import packed_batches

    return packed_batches(batches, multiple)

"""Batches for pre-training through whichever pipeline the installation has."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from bert_tf.data.input.batches import Batches, Dataset
from bert_tf.data.input.packing import pack_batch


def pretraining_data(directory: str | Path, split: str, **arguments: Any) -> Dataset:
    """Returns batches through tf.data where TensorFlow is installed, through numpy where it is not: the same ones.

    Args:
        directory, split, **arguments: of `input_pipeline.pretraining_dataset`.
    """
    if importlib.util.find_spec("tensorflow") is None:
        from bert_tf.data.input.numpy import pretraining_batches

        return pretraining_batches(directory, split, **arguments)
    from bert_tf.data.input.tf import pretraining_dataset

    return pretraining_dataset(directory, split, **arguments)


def packed_data(batches: Dataset, multiple: int) -> Dataset:
    """Returns what `packing.pack_batch` makes of each batch of either pipeline.

    Args:
        batches: of `pretraining_data`.
        multiple: what the rows of a batch are to be a multiple of.
    """
    if isinstance(batches, Batches):
        return Batches(lambda: (pack_batch(inputs, targets, weights, multiple) for inputs, targets, weights in batches))
    from bert_tf.data.input.tf_padding import packed_batches

    return packed_batches(batches, multiple)

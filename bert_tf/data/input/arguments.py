"""Argument checks shared by the tf.data and the numpy input pipeline."""

from __future__ import annotations

from bert_tf.data.schema import SPLITS

# Seed of the masks of dynamic records in evaluation, so that metrics of different runs are comparable.
EVALUATION_SEED = 0


def check_arguments(
    split: str, batch_size: int, seed: int, start_step: int, epochs: int | None, training: bool, by_length: bool
) -> None:
    """Raises ValueError if an argument of `pretraining_dataset` is out of range."""
    if split not in SPLITS:
        raise ValueError(f"`split` must be one of {', '.join(SPLITS)}. Received: {split!r}")
    if batch_size < 1:
        raise ValueError(f"`batch_size` must be at least 1. Received: {batch_size}")
    if not 0 <= seed < 2**63:
        raise ValueError(f"`seed` must be in [0, 2**63). Received: {seed}")
    if start_step < 0 or (start_step and not training):
        raise ValueError(f"`start_step` must be at least 0, and 0 in evaluation. Received: {start_step}")
    if epochs is not None and (epochs < 1 or (epochs > 1 and not training)):
        raise ValueError(f"`epochs` must be at least 1, and 1 or None in evaluation. Received: {epochs}")
    if by_length and not training:
        raise ValueError("`by_length` requires `training`.")


def check_examples(where: str, examples: int, batch_size: int, epochs: int | None, training: bool) -> None:
    """Raises ValueError if a split, named by `where`, has too few examples."""
    if not examples:
        raise ValueError(f"{where} is empty.")
    if training and epochs is not None and examples * epochs < batch_size:
        raise ValueError(
            f"{where} has {examples} examples, too few to fill a batch in {epochs} epochs. "
            f"Received: batch_size={batch_size}"
        )

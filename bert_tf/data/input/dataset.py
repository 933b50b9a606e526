"""Datasets, options of pre-training batches, and opened splits: what the tf.data and the numpy pipeline share."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from bert_tf.config.data import DataConfig
from bert_tf.config.training import OBJECTIVES
from bert_tf.data.manifest import open_data
from bert_tf.data.schema import SPLITS
from bert_tf.data.tfrecord.shards import ShardInfo
from bert_tf.storage.mirrors import Mirror, data_path
from bert_tf.text.vocabulary import Vocabulary

# Seed of the masks of dynamic records in evaluation, so that metrics of different runs are comparable.
EVALUATION_SEED = 0
# Size of the shuffle window in records: 5 MB of dynamic records of 128 tokens. Shards are already uniform samples of
# the corpus in random order, so the window only has to change the neighbours of a record in every epoch.
WINDOW = 16384
# Inputs, targets and weights by name: arrays or tensors.
Batch = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]
_Item = TypeVar("_Item")


class Dataset(Protocol):
    """Interface of training data; a `tf.data.Dataset` implements it."""

    def __iter__(self) -> Iterator[Any]:
        """Starts a new pass."""

    def take(self, count: int) -> Dataset:
        """Returns the first `count` batches, or all batches if `count` is -1."""

    def concatenate(self, dataset: Dataset) -> Dataset:
        """Returns these batches followed by the batches of `dataset`."""


class Batches:
    """A re-iterable sequence of batches of numpy arrays; `make` starts a new pass."""

    def __init__(self, make: Callable[[], Iterator[Any]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Any]:
        return self._make()

    def take(self, count: int) -> Batches:
        """Returns the first `count` batches, or all batches if `count` is -1."""
        return self if count == -1 else Batches(lambda: itertools.islice(self, count))

    def concatenate(self, dataset: Dataset) -> Batches:
        """Returns these batches followed by the batches of `dataset`."""
        return Batches(lambda: itertools.chain(self, dataset))


@dataclass(frozen=True)
class RowShare:
    """The rows of a global batch that a process reads: number `index`, from 0, of `count` equal parts in their order.

    Args:
        index: number of the part.
        count: number of parts.

    Raises:
        ValueError: if `index` is not in [0, count).

    Example:
        >>> from bert_tf.data.input.dataset import RowShare
        >>> RowShare(1, 4).of(32)
        slice(8, 16, None)
    """

    index: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            raise ValueError(f"`index` must be in [0, `count`). Received: {self.index} and {self.count}")

    def of(self, batch_size: int) -> slice:
        """Returns the rows of this share in a batch. Raises ValueError if the shares are not equal."""
        if batch_size % self.count:
            raise ValueError(
                f"`batch_size` must be a multiple of the number of shares, {self.count}. Received: {batch_size}"
            )
        size = batch_size // self.count
        return slice(self.index * size, (self.index + 1) * size)


ALL_ROWS = RowShare()


@dataclass(frozen=True)
class BatchOptions:
    """Size, order and kind of the batches of a split. Raises ValueError if an option is out of range."""

    batch_size: int  # B, global batch size over all replicas
    seed: int  # of order and masks; ignored in evaluation
    start_step: int = 0  # number of batches to skip at the start; training only
    first_row: int = 0  # number of examples before the first batch, which other batches have; training only
    epochs: int | None = None  # passes, None for unlimited; the last incomplete batch is dropped
    training: bool = True  # True for training, False for evaluation
    by_length: bool = False  # batches of similar length with less padding (see `bins`); training only
    objective: str = "mlm"  # targets: masked tokens, or with `causal_lm` the token after each position
    share: RowShare = ALL_ROWS  # rows of each batch to parse and return; the order is that of the global batch
    masked_lm_prob: float | None = None  # instead of the data's, for dynamic masks; training only
    most_masked: float | None = None  # largest `masked_lm_prob` of a run, so that all its batches have one shape
    mask_share: float | None = None
    random_share: float | None = None

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"`batch_size` must be at least 1. Received: {self.batch_size}")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"`seed` must be in [0, 2**63). Received: {self.seed}")
        if self.start_step < 0 or (self.start_step and not self.training):
            raise ValueError(f"`start_step` must be at least 0, and 0 in evaluation. Received: {self.start_step}")
        if self.first_row < 0 or (self.first_row and not (self.training and self.epochs is None)):
            raise ValueError(
                f"`first_row` must be at least 0, and 0 in evaluation or with `epochs`. Received: {self.first_row}"
            )
        if self.epochs is not None and (self.epochs < 1 or (self.epochs > 1 and not self.training)):
            raise ValueError(f"`epochs` must be at least 1, and 1 or None in evaluation. Received: {self.epochs}")
        if self.by_length and not self.training:
            raise ValueError("`by_length` requires `training`.")
        if self.objective not in OBJECTIVES:
            raise ValueError(f"`objective` must be one of {', '.join(OBJECTIVES)}. Received: {self.objective!r}")
        self.share.of(self.batch_size)

    @property
    def own_rows(self) -> slice:
        """Rows of each global batch to parse and return."""
        return self.share.of(self.batch_size)

    def masking(self, config: DataConfig) -> DataConfig:
        """Returns the data's configuration with these shares of masks.

        With another share of predictions, examples have places for the largest share of the run. Raises ValueError if a
        share differs and the data has static masks, which are part of its records.
        """
        names = ("masked_lm_prob", "mask_share", "random_share")
        shares: dict[str, Any] = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        other = replace(config, **shares)
        if other != config and config.masking == "static":
            raise ValueError(
                f"{' and '.join(f'`{name}`' for name in shares)} must be those of the data, because its masks are "
                f"static. Received: {', '.join(map(str, shares.values()))}. Run `bert-tf data --masking dynamic`."
            )
        if self.masked_lm_prob is None or config.masking == "static":
            return other
        most = config.most_predictions(max(self.masked_lm_prob, self.most_masked or 0.0))
        return replace(other, max_predictions_per_seq=most)

    def binned(self, config: DataConfig) -> DataConfig:
        """Returns the data's configuration with the share that gives length bins their number of predictions.

        With a share other than the data's, it is the largest of the run, so that all shares have the same shapes.
        """
        masking = self.masking(config)
        return masking if self.most_masked is None else replace(masking, masked_lm_prob=self.most_masked)


@dataclass(frozen=True)
class Split:
    """An opened split of a data directory.

    In training, the stream of records is a sequence of epochs. An epoch is the shards in an order drawn from (seed,
    epoch), cut into windows. Each window is sorted by the keys of its records. The key of a record is drawn from (seed,
    epoch, shard, index in the shard) and does not depend on the batch size. Both pipelines read this order, a pure
    function of seed and position.
    """

    paths: Sequence[Path]  # its shards
    counts: Sequence[int]  # number of records in each shard
    seed: int  # of the order of the records and of the masks
    config: DataConfig
    binned: DataConfig  # of the shapes of length bins
    vocabulary: Vocabulary
    # Makes a shard of a mirror available at its path; None if all shards are there.
    fetch: Callable[[Path], Path] | None = None

    @classmethod
    def open(cls, directory: str | Path, name: str, options: BatchOptions) -> Split:
        """Opens and checks the split `name` (`train` or `validation`) of a data directory.

        Raises ValueError if files do not match the manifest, or the split is empty or too small for a batch.
        """
        if name not in SPLITS:
            raise ValueError(f"`split` must be one of {', '.join(SPLITS)}. Received: {name!r}")
        directory = data_path(directory)
        manifest, vocabulary = open_data(directory)
        shards: Sequence[ShardInfo] = manifest.shards[name]
        examples, epochs = manifest.examples(name), options.epochs
        if not examples:
            raise ValueError(f"{directory}: split `{name}` is empty.")
        if options.training and epochs is not None and examples * epochs < options.batch_size:
            raise ValueError(
                f"{directory}: split `{name}` has {examples} examples, too few to fill a batch in {epochs} epochs. "
                f"Received: batch_size={options.batch_size}"
            )
        mirror = Mirror.at(directory)
        return cls(
            [mirror.path(shard) if mirror else directory / shard.name for shard in shards],
            [shard.examples for shard in shards],
            options.seed if options.training else EVALUATION_SEED,
            options.masking(manifest.config),
            options.binned(manifest.config),
            vocabulary,
            mirror.fetcher(shards) if mirror else None,
        )


def prefetched(items: Iterator[_Item], count: int) -> Iterator[_Item]:
    """Yields `items` and prefetches up to `count` of them in a background thread."""
    end = object()
    with ThreadPoolExecutor(1) as pool:
        pending = deque(pool.submit(next, items, end) for _ in range(count))
        try:
            while (item := pending.popleft().result()) is not end:
                pending.append(pool.submit(next, items, end))
                yield item  # type: ignore[misc]
        finally:
            for future in pending:
                future.cancel()

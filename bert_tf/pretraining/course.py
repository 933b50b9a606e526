"""The course of a pre-training run: data, size and masks of its batches, by their number."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bert_tf.config import ConfigError, RunConfig, TrainingConfig
from bert_tf.data.examples.sample_examples import tokens_of_row
from bert_tf.data.input import packed_data, pretraining_data
from bert_tf.data.input.bins import GROUP
from bert_tf.data.input.dataset import ALL_ROWS, Batch, BatchOptions, Dataset, RowShare
from bert_tf.data.manifest import Manifest, data_directories, open_data
from bert_tf.models import BertPretrainer
from bert_tf.pretraining.facts import amount_of_data, chance_line, next_step, sample_inputs
from bert_tf.storage import data_path
from bert_tf.text.vocabulary import Vocabulary
from bert_tf.training.evaluation.baselines import EvaluationContext, chance_figures, published_figures
from bert_tf.training.logging.flops import step_flops
from bert_tf.training.losses import Objective, pretraining_objective
from bert_tf.training.run_spec import Packing, TrainingData

# Number of equal parts of the steps in which the share of masks changes. From 0.3 to 0.15, each part has about one
# prediction less than the part before it in an example of 128 tokens.
MASK_STAGES = 16


def held_out_split(manifest: Manifest) -> str | None:
    """Returns the split to evaluate on, None if the data has no held-out split."""
    return "validation" if manifest.shards.get("validation") else None


@dataclass(frozen=True)
class Stage:
    """Consecutive batches of a run from the same data, of one size and with one share of masks.

    Args:
        data: data directory.
        manifest: its manifest.
        first: number of the first batch in the run, from 0.
        batch_size: rows of a batch.
        masked_lm_prob: share of tokens to predict; None for the data's.
        rows_before: rows of the same data in earlier stages.
    """

    data: Path
    manifest: Manifest
    first: int
    batch_size: int
    masked_lm_prob: float | None = None
    rows_before: int = 0


def open_phases(data: str | Path, run: RunConfig) -> tuple[list[tuple[Path, Manifest]], Vocabulary]:
    """Returns the data directories of a run with their manifests, shorter examples first, and their vocabulary.

    The data is a data directory, or the output directory of `bert-tf data` with two lengths. Raises ValueError if data
    and configuration do not match, there are more than two lengths, or the vocabularies of two lengths differ.
    """
    folders = data_directories(data) or [data_path(data)]
    if len(folders) > 2:
        names = ", ".join(folder.name for folder in folders)
        raise ValueError(f"{data}: must hold examples of one or two lengths. Received: {names}")
    phases: list[tuple[Path, Manifest]] = []
    for folder in folders:
        manifest, vocabulary = open_data(folder)
        check_fits(folder, manifest, vocabulary, run)
        phases.append((folder, manifest))
        _check_alike(phases[0], phases[-1])
    return phases, vocabulary


def stages_of(phases: Sequence[tuple[Path, Manifest]], training: TrainingConfig) -> list[Stage]:
    """Returns the stages of a run, in order.

    Shorter examples come first (the paper's A.2); the longer ones take the last `training.long_share` of the steps.
    Each batch size takes as many steps. The share of masks changes in `MASK_STAGES` parts, over the decay of a
    trapezoidal schedule or over all steps. With length bins, both change between two groups of batches.
    """
    steps = training.steps
    long_steps = max(1, round(steps * training.long_share))
    data = dict(zip((0, max(0, steps - long_steps)), phases, strict=False))

    group = GROUP if training.padding == "bins" else 1

    def parts(values: Sequence[Any], begin: int) -> dict[int, Any]:
        """Returns values by the first batches of equal parts from `begin` on, the later ones if there are too few."""
        values = values[-max(1, (steps - begin) // group) :]
        found = {}
        for number, value in enumerate(values):
            batch = begin + number * (steps - begin) // len(values)
            start = max(first for first in data if first <= batch)
            end = min((first for first in data if first > batch), default=steps)
            found[min(start + -(-(batch - start) // group) * group, end)] = value
        return found

    sizes = parts(training.batch_sizes, 0)
    shares: dict[int, float | None] = {0: None}
    if training.masked_lm_shares:
        first, last = training.masked_lm_shares
        begin = training.decay_start if training.schedule == "trapezoidal" else 0
        count = MASK_STAGES if first != last else 1
        count = min(count, max(1, (steps - begin) // group))
        shares[0] = first
        shares.update(parts(np.linspace(first, last, count).round(6).tolist(), begin))
    stages: list[Stage] = []
    # Without steps of decay, the share would change after the last step.
    for first in sorted(batch for batch in {*data, *sizes, *shares} if batch < steps):
        (folder, manifest), size, share = (_at(first, values) for values in (data, sizes, shares))
        rows = 0
        if stages and stages[-1].data == folder:
            rows = stages[-1].rows_before + (first - stages[-1].first) * stages[-1].batch_size
        stages.append(Stage(folder, manifest, first, size, share, rows))
    return stages


def _at(batch: int, values: Mapping[int, Any]) -> Any:
    """Returns the value for a batch from values by the number of the first batch that has them."""
    return values[max(first for first in values if first <= batch)]


class Course:
    """Data and context of a run's steps by batch number."""

    def __init__(self, phases: Sequence[tuple[Path, Manifest]], run: RunConfig, objective: Objective) -> None:
        self._phases, self._run, self._objective = phases, run, objective
        self.stages = stages_of(phases, run.training)
        training = run.training
        # Always the same object for the same data, so that it is traced once. An evaluation takes as many rows at once
        # as a training step.
        size = training.largest_batch // training.accumulate
        self._held_out = functools.cache(
            lambda data, share: held_out(data, "validation", size, training.objective, share)
        )
        self._first_rows = functools.cache(lambda data, rows: next(iter(held_out(data, "validation", rows))))
        self._chance: dict[Path, Mapping[str, float]] = {}

    def training_data(self) -> TrainingData:
        """Returns the batches of the run."""
        return TrainingData(
            self.batches,
            self.held_out if all(held_out_split(manifest) for _, manifest in self._phases) else None,
            takes_share=True,
            boundaries=[stage.first for stage in self.stages[1:]],
            packing=Packing(BertPretrainer.packed, packed_data) if self._run.training.padding == "pack" else None,
        )

    def common_batches(self, training: TrainingConfig) -> int:
        """Returns the number of first batches that a run with other training settings has too."""
        other = stages_of(self._phases, training)
        for first in sorted({stage.first for stage in [*self.stages, *other]}):
            one, two = (replace(_stage_of(stages, first), first=0) for stages in (self.stages, other))
            if one != two:
                return first
        return min(self._run.training.steps, training.steps)

    def batches(self, start: int, share: RowShare = ALL_ROWS) -> Dataset:
        """Returns the rows of a share of endless batches from `start` on."""
        stage, config = self._stage_of(start), self._run.training
        return pretraining_data(
            stage.data, "train", batch_size=stage.batch_size, seed=config.seed, start_step=start - stage.first,
            first_row=stage.rows_before, epochs=None, training=True, by_length=config.padding == "bins",
            objective=config.objective, share=share, **mask_options(config, stage.masked_lm_prob),
        )  # fmt: skip

    def held_out(self, batch: int, share: RowShare = ALL_ROWS) -> Dataset:
        """Returns the rows of a share of the held-out batches of the same length."""
        return self._held_out(self._stage_of(batch).data, share)

    def evaluation_context(self, vocabulary: Vocabulary) -> EvaluationContext:
        """Returns baselines and sample predictions to report with every evaluation."""
        training, units = self._run.training, {manifest.config.mask_unit for _, manifest in self._phases}
        return EvaluationContext(
            vocabulary,
            chance=self.chance,
            published=published_figures(self._run.model, units.pop() if len(units) == 1 else ""),
            warmup_steps=training.resolved_warmup(training.steps),
            # The others are shown by their masks.
            examples=self.shown if training.show_examples and training.objective == "mlm" else None,
            total_steps=training.steps,
            next_step=next_step(self._run),
        )

    def chance(self, batch: int, stop: Callable[[], bool]) -> Mapping[str, float]:
        """Returns the metrics of the best constant guess on the evaluated data; computed once unless stopped."""
        data = self._stage_of(batch).data
        if data in self._chance:
            return self._chance[data]
        batches = itertools.islice(self.held_out(batch), self._run.training.evaluate_steps or None)
        metrics = chance_figures(itertools.takewhile(lambda _: not stop(), batches), self._objective)
        if not stop():
            self._chance[data] = metrics
        return metrics

    def announce(self, stop: Callable[[], bool]) -> list[str]:
        """Returns lines about the amount of data and chance; counting for the latter ends once `stop` returns True."""
        rows = {data: 0 for data, _ in self._phases}
        ends = [*(stage.first for stage in self.stages[1:]), self._run.training.steps]
        for stage, end in zip(self.stages, ends, strict=True):
            rows[stage.data] += (end - stage.first) * stage.batch_size
        return [
            *(amount_of_data(manifest, rows[data]) for data, manifest in self._phases),
            # Of the data of the last evaluation.
            chance_line(self.chance(ends[-1] - 1, stop) if held_out_split(self._phases[-1][1]) else {}),
        ]

    def shown(self, batch: int) -> Batch:
        """Returns the first held-out examples of the same length."""
        stage = self._stage_of(batch)
        return self._first_rows(
            stage.data, min(self._run.training.show_examples, stage.manifest.examples("validation"))
        )

    def sample(self, vocabulary: Vocabulary) -> dict[str, Any]:
        """Returns `example`, the inputs of an exported model for a held-out example; {} for none, or without masks."""
        data, manifest = self._phases[0]
        if not held_out_split(manifest) or self._run.training.objective != "mlm":
            return {}
        parts = self._first_rows(data, 1)
        arrays: Any = tuple({name: np.asarray(value) for name, value in part.items()} for part in parts)
        tokens, _ = tokens_of_row(arrays, 0, vocabulary)
        return {"example": sample_inputs(tokens)}

    def flops(self, batch: int, positions: float) -> float:
        """Returns the floating-point operations of the step with this batch and so many positions."""
        stage, training = self._stage_of(batch), self._run.training
        options = BatchOptions(stage.batch_size, 0, **mask_options(training, stage.masked_lm_prob))
        config = options.masking(stage.manifest.config)
        length = config.max_seq_length
        # Bins have all examples in shorter rows; packing has fewer rows of full length.
        rows, width = float(stage.batch_size), positions / stage.batch_size
        if training.padding == "pack":
            rows, width = positions / length, float(length)
        predictions = config.max_predictions_per_seq * width / length if training.objective == "mlm" else width - 1
        return step_flops(self._run.model, rows, width, predictions)

    def _stage_of(self, batch: int) -> Stage:
        return _stage_of(self.stages, batch)


def _stage_of(stages: Sequence[Stage], batch: int) -> Stage:
    return next(stage for stage in reversed(stages) if stage.first <= batch)


def held_out(data: Path, split: str, batch_size: int, objective: str = "mlm", share: RowShare = ALL_ROWS) -> Dataset:
    """Returns the rows of a share of one pass over `split` with fixed masks, or with the targets of an objective."""
    return pretraining_data(
        data, split, batch_size=batch_size, seed=0, epochs=1, training=False, objective=objective, share=share
    )


def constant_guess_accuracy(data: Path, split: str, batch_size: int = 32) -> float:
    """Returns the accuracy of predicting the most frequent of the masked pieces of `split` at all their positions."""
    return chance_figures(held_out(data, split, batch_size), pretraining_objective())["mlm_accuracy"]


def mask_options(config: TrainingConfig, masked_lm_prob: float | None) -> dict[str, Any]:
    """Returns the shares of masks that replace those of the data, by name; {} if the data's are used."""
    shares = {"masked_lm_prob": masked_lm_prob, "mask_share": config.mask_share, "random_share": config.random_share}
    if masked_lm_prob is not None and config.masked_lm_shares:
        shares["most_masked"] = max(config.masked_lm_shares)
    return {name: share for name, share in shares.items() if share is not None and share >= 0}


def check_fits(data: Path, manifest: Manifest, vocabulary: Vocabulary, run: RunConfig) -> None:
    """Raises ValueError if the data does not fit the model, or if its masks cannot be those of the training."""
    if len(vocabulary) != run.model.vocabulary_size:
        raise ValueError(
            f"`model.vocabulary_size` must be that of the data, {len(vocabulary)}. "
            f"Received: {run.model.vocabulary_size}"
        )
    if manifest.config.max_seq_length > run.model.max_sequence_length:
        raise ValueError(
            f"the data's `max_seq_length` must not exceed `model.max_sequence_length`. "
            f"Received: {manifest.config.max_seq_length} and {run.model.max_sequence_length}"
        )
    if manifest.config.next_sentence and run.model.num_segments == 1:
        raise ValueError(
            f"{data}: `model.num_segments` must be 2 for pairs, or 0 for an encoder without segments. Received: 1"
        )
    shares = run.training.masked_lm_shares
    options = mask_options(run.training, max(shares) if shares else None)
    try:
        BatchOptions(run.training.largest_batch, run.training.seed, **options).masking(manifest.config)
    except ValueError as error:
        raise ConfigError(f"{data}: {error}") from error


def _check_alike(one: tuple[Path, Manifest], other: tuple[Path, Manifest]) -> None:
    """Raises ValueError if two data directories cannot train one model."""
    (first_data, first), (second_data, second) = one, other
    for name, expected, value in (
        ("vocabulary_sha256", first.vocabulary_sha256, second.vocabulary_sha256),
        ("config.lowercase", first.config.lowercase, second.config.lowercase),
    ):
        if expected != value:
            raise ValueError(
                f"{second_data}: `{name}` must be that of {first_data}, {expected}, because both train one model. "
                f"Received: {value}"
            )

"""Pre-training runs: from a data directory to a preset."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import keras
import numpy as np

from bert_tf.config import RunConfig, TrainingConfig, to_dict
from bert_tf.config.preset_names import RUN_PRESET_NAME
from bert_tf.config.training import check_objective
from bert_tf.data.examples.sample_examples import tokens_of_row
from bert_tf.data.input import packed_data, pretraining_data
from bert_tf.data.input.dataset import ALL_ROWS, Batch, BatchOptions, Dataset, RowShare
from bert_tf.data.manifest import Manifest, data_directories, open_data
from bert_tf.data.schema import SPLITS
from bert_tf.models import BertBackbone, BertPretrainer, load_preset, save_preset
from bert_tf.models.preset_header import write_header
from bert_tf.pretraining.facts import data_facts, sample_inputs
from bert_tf.pretraining.warm_start import InitialWeights
from bert_tf.reports.training import write_report
from bert_tf.storage import data_path, working_copy
from bert_tf.text.vocabulary import Vocabulary
from bert_tf.training.evaluation.baselines import EvaluationContext, chance_figures, published_figures
from bert_tf.training.evaluation.evaluate import evaluate_pretraining
from bert_tf.training.fit import TrainResult, fit
from bert_tf.training.logging.flops import step_flops
from bert_tf.training.losses import Objective, pretraining_objective
from bert_tf.training.output import is_chief
from bert_tf.training.run_spec import EvaluationSpec, Packing, RunSpec, TrainingData


def held_out_split(manifest: Manifest) -> str | None:
    """Returns the split to evaluate on, None if the data has no held-out split."""
    return "validation" if manifest.shards.get("validation") else None


@dataclass(frozen=True)
class Phase:
    """A part of a run with examples of one length; `first` is the number of its first batch in the run, from 0."""

    data: Path
    manifest: Manifest
    first: int


def phases_of(data: str | Path, run: RunConfig) -> tuple[list[Phase], Vocabulary]:
    """Returns the phases of a run, in order, and the vocabulary of its data.

    The data is a data directory, or the output directory of `bert-tf data` with two lengths. The shorter examples come
    first (the paper's A.2), the longer ones take the last `training.long_share` of the steps. Raises ValueError if data
    and configuration do not match, there are more than two lengths, or the vocabularies of two lengths differ.
    """
    folders = data_directories(data) or [data_path(data)]
    if len(folders) > 2:
        names = ", ".join(folder.name for folder in folders)
        raise ValueError(f"{data}: must hold examples of one or two lengths. Received: {names}")
    long_steps = max(1, round(run.training.steps * run.training.long_share))
    firsts = (0, max(0, run.training.steps - long_steps))
    phases = []
    for folder, first in zip(folders, firsts, strict=False):
        manifest, vocabulary = open_data(folder)
        check_fits(manifest, vocabulary, run)
        phases.append(Phase(folder, manifest, first))
        _check_alike(phases[0], phases[-1])
    return phases, vocabulary


def run_pretraining(
    data: str | Path, run: RunConfig, output: str | Path, init: str | Path | None = None
) -> tuple[Path, TrainResult]:
    """Trains a model on a data directory, or resumes the run in `output`; returns preset directory and result.

    For data of single segments (`bert-tf data --no_nsp`) and for `training.nsp_weight` = 0 the model has neither pooler
    nor next sentence prediction head, because nothing would train them. `init` is a preset of the run's architecture
    whose weights to start from; None starts from random ones. All paths may be URLs; of an output on a store, the path
    of the working copy is returned. Raises ValueError if data, configuration and `init` do not match.
    """
    with working_copy(output, writes=is_chief(run.training.strategy)) as directory:
        return _run_pretraining(data, run, directory, init)


def _run_pretraining(
    data: str | Path, run: RunConfig, output: Path, init: str | Path | None
) -> tuple[Path, TrainResult]:
    phases, vocabulary = phases_of(data, run)
    has_pairs = any(phase.manifest.config.next_sentence for phase in phases)
    check_objective(run, has_pairs)
    initial = InitialWeights.of(init) if init else None
    if initial:
        initial.check(run.model, [(phase.data, phase.manifest) for phase in phases])
    training = run.training
    next_sentence = has_pairs and training.nsp_weight > 0
    objective = pretraining_objective(training.objective, training.nsp_weight if next_sentence else 0.0)
    if not next_sentence:
        run = replace(run, model=replace(run.model, pooler=False))
    course = _Course(phases, run, objective)
    fingerprints = [fingerprint(phase.manifest) for phase in phases]
    identity = fingerprints[0] if len(fingerprints) == 1 else fingerprints
    origin = initial.identity() if initial else {}
    facts = data_facts(data_path(data), [phase.manifest for phase in phases])
    lowercase = phases[0].manifest.config.lowercase

    def build_model() -> BertPretrainer:
        if initial:
            return initial.model(run.model, next_sentence)
        return BertPretrainer(BertBackbone(run.model), next_sentence=next_sentence)

    def describe(model: keras.Model, directory: Path, step: int) -> None:
        write_header(model, directory, vocabulary, lowercase, info={"step": step, "data": identity, **origin})

    spec = RunSpec(
        build_model,
        course.training_data(),
        objective=objective,
        evaluation=EvaluationSpec(context=course.evaluation_context(vocabulary)),
        identity={"model": to_dict(run.model), "data": identity, **origin},
        flops=course.flops,
        facts=facts,
        describe=describe,
        on_report=write_report,
    )
    result = fit(spec, run.training, output)
    preset = output / RUN_PRESET_NAME
    info = {"step": result.step, "loss": result.loss, "data": identity, **origin} | (result.evaluation or {})
    if result.is_chief:
        info |= facts | course.sample(vocabulary)
        save_preset(result.model, preset, vocabulary, lowercase, info=info)
    return preset, result


class _Course:
    """Data and context of a run's steps by batch number."""

    def __init__(self, phases: Sequence[Phase], run: RunConfig, objective: Objective) -> None:
        self._phases, self._run, self._objective = phases, run, objective
        training = run.training
        # Always the same object for the same data, so that it is traced once. An evaluation takes as many rows at once
        # as a training step.
        size = training.batch_size // training.accumulate
        self._held_out = functools.cache(
            lambda data, share: held_out(data, "validation", size, training.objective, share)
        )
        self._first_rows = functools.cache(lambda data, rows: next(iter(held_out(data, "validation", rows))))
        self._chance: dict[Path, Mapping[str, float]] = {}

    def training_data(self) -> TrainingData:
        """Returns the batches of the run."""
        return TrainingData(
            self.batches,
            self.held_out if all(held_out_split(phase.manifest) for phase in self._phases) else None,
            takes_share=True,
            boundaries=[phase.first for phase in self._phases[1:]],
            packing=Packing(BertPretrainer.packed, packed_data) if self._run.training.padding == "pack" else None,
        )

    def batches(self, start: int, share: RowShare = ALL_ROWS) -> Dataset:
        """Returns the rows of a share of endless batches from `start` on."""
        phase, config = self._phase_of(start), self._run.training
        return pretraining_data(
            phase.data, "train", batch_size=config.batch_size, seed=config.seed, start_step=start - phase.first,
            epochs=None, training=True, by_length=config.padding == "bins", objective=config.objective, share=share,
            **mask_shares(config),
        )  # fmt: skip

    def held_out(self, batch: int, share: RowShare = ALL_ROWS) -> Dataset:
        """Returns the rows of a share of the held-out batches of the same length."""
        return self._held_out(self._phase_of(batch).data, share)

    def evaluation_context(self, vocabulary: Vocabulary) -> EvaluationContext:
        """Returns baselines and sample predictions to report with every evaluation."""
        training, units = self._run.training, {phase.manifest.config.mask_unit for phase in self._phases}
        return EvaluationContext(
            vocabulary,
            chance=self.chance,
            published=published_figures(self._run.model, units.pop() if len(units) == 1 else ""),
            warmup_steps=training.resolved_warmup(training.steps),
            # The others are shown by their masks.
            examples=self.shown if training.show_examples and training.objective == "mlm" else None,
        )

    def chance(self, batch: int, stop: Callable[[], bool]) -> Mapping[str, float]:
        """Returns the metrics of the best constant guess on the evaluated data; computed once unless stopped."""
        data = self._phase_of(batch).data
        if data in self._chance:
            return self._chance[data]
        batches = itertools.islice(self.held_out(batch), self._run.training.evaluate_steps or None)
        metrics = chance_figures(itertools.takewhile(lambda _: not stop(), batches), self._objective)
        if not stop():
            self._chance[data] = metrics
        return metrics

    def shown(self, batch: int) -> Batch:
        """Returns the first held-out examples of the same length."""
        phase = self._phase_of(batch)
        return self._first_rows(
            phase.data, min(self._run.training.show_examples, phase.manifest.examples("validation"))
        )

    def sample(self, vocabulary: Vocabulary) -> dict[str, Any]:
        """Returns `example`, the inputs of an exported model for a held-out example; {} for none, or without masks."""
        data, manifest = self._phases[0].data, self._phases[0].manifest
        if not held_out_split(manifest) or self._run.training.objective != "mlm":
            return {}
        parts = self._first_rows(data, 1)
        arrays: Any = tuple({name: np.asarray(value) for name, value in part.items()} for part in parts)
        tokens, _ = tokens_of_row(arrays, 0, vocabulary)
        return {"example": sample_inputs(tokens)}

    def flops(self, batch: int, positions: float) -> float:
        """Returns the floating-point operations of the step with this batch and so many positions."""
        config, training = self._phase_of(batch).manifest.config, self._run.training
        length = config.max_seq_length
        # Bins have all examples in shorter rows; packing has fewer rows of full length.
        rows, width = float(training.batch_size), positions / training.batch_size
        if training.padding == "pack":
            rows, width = positions / length, float(length)
        predictions = config.max_predictions_per_seq * width / length if training.objective == "mlm" else width - 1
        return step_flops(self._run.model, rows, width, predictions)

    def _phase_of(self, batch: int) -> Phase:
        return next(phase for phase in reversed(self._phases) if phase.first <= batch)


def held_out(data: Path, split: str, batch_size: int, objective: str = "mlm", share: RowShare = ALL_ROWS) -> Dataset:
    """Returns the rows of a share of one pass over `split` with fixed masks, or with the targets of an objective."""
    return pretraining_data(
        data, split, batch_size=batch_size, seed=0, epochs=1, training=False, objective=objective, share=share
    )


def mask_shares(config: TrainingConfig) -> dict[str, Any]:
    """Returns the shares of masks that replace those of the data, by name; {} if the data's are used."""
    shares = {"mask_share": config.mask_share, "random_share": config.random_share}
    return {name: share for name, share in shares.items() if share >= 0}


def check_fits(manifest: Manifest, vocabulary: Vocabulary, run: RunConfig) -> None:
    """Raises ValueError if the data is longer than the model, or the vocabulary sizes differ."""
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
    BatchOptions(run.training.batch_size, run.training.seed, **mask_shares(run.training)).masking(manifest.config)


def _check_alike(one: Phase, other: Phase) -> None:
    """Raises ValueError if two data directories cannot train one model."""
    first, second = one.manifest, other.manifest
    for name, expected, value in (
        ("vocabulary_sha256", first.vocabulary_sha256, second.vocabulary_sha256),
        ("config.lowercase", first.config.lowercase, second.config.lowercase),
    ):
        if expected != value:
            raise ValueError(
                f"{other.data}: `{name}` must be that of {one.data}, {expected}, because both train one model. "
                f"Received: {value}"
            )


def fingerprint(manifest: Manifest) -> str:
    """Returns a SHA-256 of all inputs of the batches: checksums of the shards, vocabulary and masking configuration."""
    shards = [f"{shard.name} {shard.sha256}" for split in SPLITS for shard in manifest.shards[split]]
    config = json.dumps(to_dict(manifest.config), sort_keys=True)
    return hashlib.sha256("\n".join([*shards, manifest.vocabulary_sha256, config]).encode()).hexdigest()


def constant_guess_accuracy(data: Path, split: str, batch_size: int = 32) -> float:
    """Returns the accuracy of predicting the most frequent of the masked pieces of `split` at all their positions."""
    return chance_figures(held_out(data, split, batch_size), pretraining_objective())["mlm_accuracy"]


def run_evaluation(preset: str | Path, data: str | Path, batch_size: int = 32) -> dict[str, Any]:
    """Returns `split` and the held-out metrics (`evaluate_pretraining`) of a pre-trained preset, or of a run's preset.

    A left-to-right model is evaluated as a language model without masks, `causal_lm`.

    The validation split is read, or the training split if absent. For data of several lengths, the result is such a
    dictionary per directory name, `length-128` and so on, shorter examples first. Raises ValueError for a preset of
    another kind, data of another vocabulary or with more positions than the model, or data without pairs for a preset
    that has only a next sentence prediction head.
    """
    loaded, data = load_preset(preset), data_path(data)
    if loaded.kind != "BertPretrainer":
        raise ValueError(
            f"{preset}: `evaluate` needs a pre-trained preset. Received: {loaded.kind}. The metrics of a fine-tuned "
            "preset are in the report.html of its run; `bert-tf score` computes those of predictions."
        )
    folders = data_directories(data) or [data]
    manifests = {folder: open_data(folder, loaded.vocabulary)[0] for folder in folders}
    for folder, manifest in manifests.items():
        if manifest.config.max_seq_length > loaded.config.max_sequence_length:
            raise ValueError(
                f"{folder}: `max_seq_length` must not exceed the {loaded.config.max_sequence_length} positions of "
                f"{preset}. Received: {manifest.config.max_seq_length}"
            )
    results: dict[str, dict[str, Any]] = {}
    for folder, manifest in manifests.items():
        split = held_out_split(manifest) or "train"
        objective = loaded.config.objective
        metrics = evaluate_pretraining(loaded.model, held_out(folder, split, batch_size, objective), objective)
        if len(metrics) == 1:
            raise ValueError(f"{folder}: must hold pairs, because {preset} has only a next sentence prediction head.")
        results[folder.name] = {"split": split, **metrics}
    return results if len(results) > 1 else results[folders[0].name]

"""Pre-training runs: from a data directory to a preset."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras

from bert_tf.config import RunConfig, to_dict
from bert_tf.config.preset_names import RUN_PRESET_NAME
from bert_tf.config.training import check_objective
from bert_tf.data.manifest import Manifest, data_directories, open_data
from bert_tf.data.schema import SPLITS
from bert_tf.models import BertBackbone, BertPretrainer, load_preset, save_preset
from bert_tf.models.preset_header import write_header
from bert_tf.pretraining.course import Course, held_out, held_out_split, open_phases
from bert_tf.pretraining.facts import data_facts
from bert_tf.pretraining.warm_start import InitialWeights
from bert_tf.reports.training import write_report
from bert_tf.storage import data_path, working_copy
from bert_tf.training.evaluation.evaluate import evaluate_pretraining
from bert_tf.training.fit import TrainResult, fit
from bert_tf.training.losses import pretraining_objective
from bert_tf.training.output import is_chief
from bert_tf.training.run_spec import EvaluationSpec, RunSpec


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
    phases, vocabulary = open_phases(data, run)
    manifests = [manifest for _, manifest in phases]
    has_pairs = any(manifest.config.next_sentence for manifest in manifests)
    check_objective(run, has_pairs)
    initial = InitialWeights.of(init) if init else None
    if initial:
        initial.check(run.model, phases)
    training = run.training
    next_sentence = has_pairs and training.nsp_weight > 0
    objective = pretraining_objective(training.objective, training.nsp_weight if next_sentence else 0.0)
    if not next_sentence:
        run = replace(run, model=replace(run.model, pooler=False))
    course = Course(phases, run, objective)
    fingerprints = [fingerprint(manifest) for manifest in manifests]
    identity = fingerprints[0] if len(fingerprints) == 1 else fingerprints
    origin = initial.identity() if initial else {}
    facts = data_facts(data_path(data), manifests)
    lowercase = manifests[0].config.lowercase

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
        announce=course.announce,
        describe=describe,
        on_report=write_report,
        common_batches=course.common_batches,
    )
    result = fit(spec, run.training, output)
    preset = output / RUN_PRESET_NAME
    info = {"step": result.step, "loss": result.loss, "data": identity, **origin} | (result.evaluation or {})
    if result.is_chief:
        info |= facts | course.sample(vocabulary)
        save_preset(result.model, preset, vocabulary, lowercase, info=info)
    return preset, result


def fingerprint(manifest: Manifest) -> str:
    """Returns a SHA-256 of all inputs of the batches: checksums of the shards, vocabulary and masking configuration."""
    shards = [f"{shard.name} {shard.sha256}" for split in SPLITS for shard in manifest.shards[split]]
    config = json.dumps(to_dict(manifest.config), sort_keys=True)
    return hashlib.sha256("\n".join([*shards, manifest.vocabulary_sha256, config]).encode()).hexdigest()


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

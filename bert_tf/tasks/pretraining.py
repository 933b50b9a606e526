"""Pre-training: a data directory becomes a preset."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from bert_tf.config import RunConfig, to_dict
from bert_tf.data.input_pipeline import pretraining_dataset
from bert_tf.data.manifest import Manifest, data_directories, open_data
from bert_tf.data.schema import MLM_LOGITS, SPLITS
from bert_tf.models import BertBackbone, BertPretrainer, load_preset, save_preset
from bert_tf.text.vocabulary import Vocabulary
from bert_tf.training.fit import TrainResult, evaluate_pretraining, pretrain
from bert_tf.training.flops import step_flops


def held_out_split(manifest: Manifest) -> str | None:
    """Returns the split to evaluate on, None where the data holds nothing out."""
    return "validation" if manifest.shards.get("validation") else None


@dataclass(frozen=True)
class Phase:
    """Steps that take examples of one length.

    Args:
        data: a data directory.
        manifest: what it holds.
        first: number of the first batch, counted from 0 over the whole run.
    """

    data: Path
    manifest: Manifest
    first: int


def phases_of(data: Path, run: RunConfig) -> tuple[list[Phase], Vocabulary]:
    """Returns the phases of a run and the vocabulary of its data.

    Args:
        data: a data directory, or the output of `bert-tf data` with two lengths: the shorter examples come first (the
            paper's A.2), the longer ones take the last `training.long_share` of the steps.
        run: the configuration, to which the data must fit.

    Raises:
        ValueError: where data and configuration disagree, or there are more than two lengths.
    """
    folders = data_directories(data) or [data]
    if len(folders) > 2:
        names = ", ".join(folder.name for folder in folders)
        raise ValueError(f"{data}: pre-training takes examples of one length or of two. Received: {names}")
    long_steps = max(1, round(run.training.steps * run.training.long_share))
    firsts = (0, max(0, run.training.steps - long_steps))
    phases = []
    for folder, first in zip(folders, firsts, strict=False):
        manifest, vocabulary = open_data(folder)
        check_fits(manifest, vocabulary, run)
        phases.append(Phase(folder, manifest, first))
    return phases, vocabulary


def run_pretraining(data: Path, run: RunConfig, output: Path) -> tuple[Path, TrainResult]:
    """Trains a model on a data directory; with the same `output` it resumes.

    Args:
        data: what `bert-tf data` made, of one length or two; see `phases_of`.
        run: the model's and the training's configuration.
        output: folder of the run; the preset goes to `output/preset`.

    Returns:
        The preset's folder and the result of training.

    Raises:
        ValueError: where data and configuration disagree.
    """
    phases, vocabulary = phases_of(data, run)
    course = _Course(phases, run)
    fingerprints = [fingerprint(phase.manifest) for phase in phases]
    identity = fingerprints[0] if len(fingerprints) == 1 else fingerprints
    result = pretrain(
        lambda: BertPretrainer(BertBackbone(run.model)),
        course.batches,
        run.training,
        output,
        validation=course.held_out if all(held_out_split(phase.manifest) for phase in phases) else None,
        identity={"model": to_dict(run.model), "data": identity},
        flops=course.flops,
        boundaries=[phase.first for phase in phases[1:]],
    )
    preset = output / "preset"
    info = {"step": result.step, "loss": result.loss, "data": identity} | (result.evaluation or {})
    if result.is_chief:
        save_preset(result.model, preset, vocabulary, phases[0].manifest.config.lowercase, info=info)
    return preset, result


class _Course:
    """What the steps of a run take, by the number of the batch."""

    def __init__(self, phases: Sequence[Phase], run: RunConfig) -> None:
        self._phases = phases
        self._run = run
        self._validation: dict[Path, tf.data.Dataset] = {}

    def batches(self, start: int) -> tf.data.Dataset:
        """Returns the batches from `start` on, without end."""
        phase, config = self._phase_of(start), self._run.training
        return pretraining_dataset(
            phase.data, "train", batch_size=config.batch_size, seed=config.seed, start_step=start - phase.first,
            epochs=None, training=True,
        )  # fmt: skip

    def held_out(self, batch: int) -> tf.data.Dataset:
        """Returns the held-out batches of the same length, the same object each time: it is traced once."""
        data = self._phase_of(batch).data
        if data not in self._validation:
            self._validation[data] = held_out(data, "validation", self._run.training.batch_size)
        return self._validation[data]

    def flops(self, batch: int) -> float:
        """Returns the floating-point operations of the step with this batch."""
        examples = self._phase_of(batch).manifest.config
        batch_size = self._run.training.batch_size
        return step_flops(self._run.model, batch_size, examples.max_seq_length, examples.max_predictions_per_seq)

    def _phase_of(self, batch: int) -> Phase:
        return next(phase for phase in reversed(self._phases) if phase.first <= batch)


def held_out(data: Path, split: str, batch_size: int) -> tf.data.Dataset:
    """Returns one pass over `split` with masks that never change."""
    return pretraining_dataset(data, split, batch_size=batch_size, seed=0, epochs=1, training=False)


def check_fits(manifest: Manifest, vocabulary: Vocabulary, run: RunConfig) -> None:
    """Raises ValueError where the data is longer than the model, or of another vocabulary."""
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


def fingerprint(manifest: Manifest) -> str:
    """Returns a SHA-256 over the names and checksums of all shards."""
    shards = [f"{shard.name} {shard.sha256}" for split in SPLITS for shard in manifest.shards[split]]
    return hashlib.sha256("\n".join(shards).encode()).hexdigest()


def constant_guess_accuracy(data: Path, split: str, batch_size: int = 32) -> float:
    """Returns the accuracy of guessing the same word piece for every masked position of `split`.

    The piece is the most frequent of those very positions, the best constant there is.
    """
    counts: Counter[int] = Counter()
    for _, targets, weights in held_out(data, split, batch_size):
        counts.update(targets[MLM_LOGITS].numpy()[weights[MLM_LOGITS].numpy() > 0].tolist())
    return counts.most_common(1)[0][1] / counts.total()


def run_evaluation(preset: Path, data: Path, batch_size: int = 32) -> dict[str, Any]:
    """Returns the held-out figures of a pre-trained preset.

    Args:
        preset: a pre-trained preset, or the output of its run.
        data: a data directory; its validation split is read, or all of it where it has none.
        batch_size: sequences a batch.

    Raises:
        ValueError: for a preset of another kind, or data of another vocabulary.
    """
    loaded = load_preset(preset)
    if loaded.kind != "BertPretrainer":
        raise ValueError(f"{preset}: `evaluate` needs a pre-trained preset. Received: {loaded.kind}")
    manifest, _ = open_data(data, loaded.vocabulary)
    split = held_out_split(manifest) or "train"
    figures = evaluate_pretraining(loaded.model, held_out(data, split, batch_size))
    return {"split": split, **figures}

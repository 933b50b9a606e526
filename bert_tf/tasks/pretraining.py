"""Pre-training: a data directory becomes a preset."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import tensorflow as tf

from bert_tf.config import RunConfig, to_dict
from bert_tf.data.input_pipeline import pretraining_dataset
from bert_tf.data.manifest import Manifest, open_data
from bert_tf.data.schema import MLM_LOGITS, SPLITS
from bert_tf.models import BertBackbone, BertPretrainer, load_preset, save_preset
from bert_tf.text.vocabulary import Vocabulary
from bert_tf.training.fit import TrainResult, evaluate_pretraining, pretrain
from bert_tf.training.flops import step_flops


def held_out_split(manifest: Manifest) -> str | None:
    """Returns the split to evaluate on, None where the data holds nothing out."""
    return "validation" if manifest.shards.get("validation") else None


def run_pretraining(data: Path, run: RunConfig, output: Path) -> tuple[Path, TrainResult]:
    """Trains a model on a data directory; with the same `output` it resumes.

    Args:
        data: what `bert-tf data` made.
        run: the model's and the training's configuration.
        output: folder of the run; the preset goes to `output/preset`.

    Returns:
        The preset's folder and the result of training.

    Raises:
        ValueError: where data and configuration disagree.
    """
    manifest, vocabulary = open_data(data)
    check_fits(manifest, vocabulary, run)
    config = run.training
    split = held_out_split(manifest)

    def batches(start_step: int) -> tf.data.Dataset:
        return pretraining_dataset(
            data, "train", batch_size=config.batch_size, seed=config.seed, start_step=start_step, epochs=None,
            training=True,
        )  # fmt: skip

    result = pretrain(
        lambda: BertPretrainer(BertBackbone(run.model)),
        batches,
        config,
        output,
        validation=(lambda: held_out(data, split, config.batch_size)) if split else None,
        identity={"model": to_dict(run.model), "data": fingerprint(manifest)},
        flops=step_flops(
            run.model, config.batch_size, manifest.config.max_seq_length, manifest.config.max_predictions_per_seq
        ),
    )
    preset = output / "preset"
    info = {"step": result.step, "loss": result.loss, "data": fingerprint(manifest)} | (result.evaluation or {})
    save_preset(result.model, preset, vocabulary, manifest.config.lowercase, info=info)
    return preset, result


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

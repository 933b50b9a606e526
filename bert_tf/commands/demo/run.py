"""`bert-tf demo`: all steps from raw text to a served model."""

from __future__ import annotations

import argparse
import glob
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from bert_tf.commands.demo.answers import export_and_ask, say_next_commands, show_filled_masks
from bert_tf.commands.demo.steps import Steps
from bert_tf.commands.pipelines import run_pipeline
from bert_tf.config import RunConfig, TrainingConfig, local_path
from bert_tf.entry.amounts import in_time
from bert_tf.entry.packages import require_all
from bert_tf.pretraining.recipes import recipe

VOCABULARY_SIZE = 8000
SEQUENCE_LENGTH = 64
# The recipe `laptop` in fewer steps.
RECIPE = recipe("laptop")
PRETRAINING = replace(RECIPE.training, steps=1000, checkpoint_every=500, evaluate_every=500, evaluate_steps=20)
# Libraries that bert_tf requires, so the text does not depend on other packages. It is the same on Python 3.12 and
# 3.13, while NumPy on 3.11 also has numpy.distutils, 64 of 8,664 documents.
LIBRARIES = ("apache_beam", "keras", "keras_hub", "numpy", "scipy", "sklearn", "tensorboard", "tensorflow")
PASSAGES_PER_LABEL = 250
# Both initialisations get the same steps and rate, with each of `RESTARTS` seeds.
FINETUNING = TrainingConfig(
    epochs=3, batch_size=32, learning_rate=1e-3, checkpoint_every=1000, log_every=100, keep_checkpoints=1
)
RESTARTS = 2
# Seconds of the steps on two idle cores (docs/benchmarks.md).
SECONDS = (20, 5, 5, 180, 7, 1, 64, 2, 17)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("--input", help="glob of text files; default: the docstrings of installed libraries")
    parser.add_argument("--output", type=Path, default=Path("runs/demo"), help="output directory; default: runs/demo")


def check(args: argparse.Namespace) -> None:
    """Checks the arguments; see `Command`."""
    require_all()
    if args.input:
        _matching_files(args.input)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Runs all steps; returns the summary."""
    from bert_tf.training.malloc import tune_allocator

    tune_allocator()
    steps = Steps(SECONDS)
    try:
        return _run(args, steps)
    except KeyboardInterrupt:
        steps.say(f"\ninterrupted in step {steps.done}. Run the same command again to continue.")
        raise


def _run(args: argparse.Namespace, steps: Steps) -> dict[str, Any]:
    output: Path = args.output
    output.mkdir(parents=True, exist_ok=True)
    steps.say(f"all steps: about {in_time(sum(SECONDS))} on two idle cores; results in {output}")
    with steps.step("Corpus"):
        files, held_out = _corpus(args.input, output, steps)
    pattern = ",".join(map(str, files))
    with steps.step(f"Vocabulary of up to {VOCABULARY_SIZE} word pieces (Beam)"):
        run_pipeline("build_vocabulary", _flags(input=pattern, format="text", vocabulary_size=VOCABULARY_SIZE,
                                                output=output / "vocab.txt"))  # fmt: skip
    with steps.step("Pre-training examples (Beam)"):
        run_pipeline("create_pretraining_data", _flags(
            input=pattern, format="text", vocabulary=output / "vocab.txt", output=output / "data",
            max_seq_length=SEQUENCE_LENGTH, max_predictions_per_seq=10, dupe_factor=4, validation_fraction=0.05,
        ))  # fmt: skip
    summary = _pretrain(output, steps)
    with steps.step("Labelled passages: the label is the file of a passage"):
        train, dev = _passages(files, held_out, output / "passages")
        steps.say(f"      {train} for training, {dev} of held-out documents, in {output / 'passages'}")
    summary |= _classify(output, steps)
    with steps.step("Mask predictions of the pre-trained model"):
        show_filled_masks(output, steps)
    with steps.step("Export, and predictions of the SavedModel in a new process"):
        version = export_and_ask(output, steps)
    say_next_commands(output, steps)
    return {"output": str(output), **summary, "saved_model": str(version)}


def _flags(**values: Any) -> list[str]:
    return [f"--{name}={value}" for name, value in values.items()]


def _matching_files(pattern: str) -> list[Path]:
    local_path(pattern)
    files = [Path(name) for name in sorted(glob.glob(pattern, recursive=True)) if Path(name).is_file()]  # noqa: PTH207
    if not files:
        raise FileNotFoundError(f"--input must match at least one file. Received: {pattern}")
    return files


def _corpus(pattern: str | None, output: Path, steps: Steps) -> tuple[list[Path], list[Path]]:
    """Returns the files of training documents, which all later steps read, and those of held-out documents."""
    from bert_tf.commands.demo.passages import labelled_documents, split_documents
    from bert_tf.data.corpora.docstrings import library_documents

    documents = labelled_documents(_matching_files(pattern)) if pattern else list(library_documents(LIBRARIES))
    files, held_out = split_documents(documents, output / "corpus", output / "held_out")
    folders = f"{output / 'corpus'} and, held out, {output / 'held_out'}"
    steps.say(f"      {len(documents)} documents of {len(files)} {'files' if pattern else 'libraries'}, in {folders}")
    return files, held_out


def _pretrain(output: Path, steps: Steps) -> dict[str, Any]:
    from bert_tf.data.manifest import read_manifest
    from bert_tf.pretraining.course import constant_guess_accuracy
    from bert_tf.pretraining.run import run_evaluation, run_pretraining

    model = replace(RECIPE.model, vocabulary_size=read_manifest(output / "data").vocabulary_size)
    with steps.step(f"Pre-training, {PRETRAINING.steps} steps of {PRETRAINING.batch_size} x {SEQUENCE_LENGTH} tokens"):
        preset, _ = run_pretraining(output / "data", RunConfig(model, PRETRAINING), output / "pretraining")
    with steps.step("Held-out metrics"):
        metrics = run_evaluation(preset, output / "data")
        guess = constant_guess_accuracy(output / "data", metrics["split"])
        steps.say(
            f"      masked words: accuracy {metrics['mlm_accuracy']:.1%}, baseline {guess:.1%} (most frequent "
            f"piece)\n      next sentence: accuracy {metrics['nsp_accuracy']:.1%}, baseline 50 %"
        )
    return {
        "mlm_accuracy": metrics["mlm_accuracy"],
        "mlm_unigram_accuracy": guess,
        "mlm_perplexity": metrics["mlm_perplexity"],
        "nsp_accuracy": metrics["nsp_accuracy"],
    }


def _passages(files: list[Path], held_out: list[Path], directory: Path) -> tuple[int, int]:
    from bert_tf.commands.demo.passages import write_passages

    return write_passages(files, held_out, directory, most_passages=PASSAGES_PER_LABEL)


def _classify(output: Path, steps: Steps) -> dict[str, Any]:
    with steps.step(f"Fine-tuning a classifier with and without pre-training, {RESTARTS} seeds each"):
        tuned, scratch = (
            _classifiers(output, folder, from_scratch)
            for folder, from_scratch in (("classifier", False), ("classifier_scratch", True))
        )
        accuracy, scratch_accuracy = (fmean(run["accuracy"] for run in runs) for runs in (tuned, scratch))
        majority = tuned[0]["majority"]
        steps.say(
            f"      held-out passages, mean accuracy of {RESTARTS} seeds: {accuracy:.1%} with pre-training "
            f"({_each(tuned)}),\n      {scratch_accuracy:.1%} without ({_each(scratch)}), "
            f"baseline {majority:.1%} (most frequent label)"
        )
    return {
        "classifier_accuracy": accuracy,
        "classifier_scratch_accuracy": scratch_accuracy,
        "classifier_majority": majority,
        "classifier_accuracies": [run["accuracy"] for run in tuned],
        "classifier_scratch_accuracies": [run["accuracy"] for run in scratch],
    }


def _classifiers(output: Path, folder: str, from_scratch: bool) -> list[dict[str, float]]:
    """Returns the held-out metrics of one run per seed; `folder` gets the preset of the best run."""
    from bert_tf.tasks.classify.task import ClassifyTask
    from bert_tf.tasks.entry import TaskFiles
    from bert_tf.tasks.finetune.init import FinetuneInit
    from bert_tf.tasks.finetune.sweep import finetune_trials, trials
    from bert_tf.tasks.input_errors import InputErrors

    sources = TaskFiles(output / "passages/train.tsv", output / "passages/dev.tsv")
    start = FinetuneInit(output / "pretraining", from_scratch, max_sequence_length=SEQUENCE_LENGTH)
    runs = trials(FINETUNING, paper_grid=False, restarts=RESTARTS)
    _, _, outcomes = finetune_trials(ClassifyTask(), sources, start, runs, output / folder, InputErrors())
    return [outcome.result.metrics for outcome in outcomes if outcome.result]


def _each(runs: list[dict[str, float]]) -> str:
    return ", ".join(f"{run['accuracy']:.1%}" for run in runs)

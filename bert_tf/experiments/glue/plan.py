"""Plan of the runs on GLUE: one for each task, learning rate and seed. Without Keras and TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bert_tf.config import ConfigError, TrainingConfig
from bert_tf.experiments.glue.tasks import WNLI, TaskData
from bert_tf.experiments.runs import Run
from bert_tf.training.output import check_names

# arXiv 1810.04805, 4.1.
PAPER_RATES = (5e-5, 4e-5, 3e-5, 2e-5)
PAPER_BATCH, PAPER_EPOCHS = 32, 3
# Names in the output directory.
RUNS, PREDICTIONS, DEV, SUBMISSION = "runs", "predictions", "dev", "submission"
RESULTS_NAME, PAGE_NAME, ZIP_NAME = "glue.json", "glue.html", "submission.zip"
# The output directory of another preset's benchmark.
COMPARED = "compared"
_OUTPUT_NAMES = frozenset({RUNS, PREDICTIONS, DEV, SUBMISSION, RESULTS_NAME, PAGE_NAME, ZIP_NAME, COMPARED})


@dataclass(frozen=True)
class GlueSettings:
    """Settings of a benchmark.

    Args:
        preset: the pre-trained preset, by any of its names.
        output: output directory.
        rates: learning rates; the best one on the development set is selected for each task.
        seeds: number of seeds.
        restarts: number of seeds of the small tasks.
        seed: the first seed.
        training: further settings of `bert-tf finetune --set`, by name.
        max_sequence_length: maximum tokens of a row; None for the default.
        from_scratch: random initial weights, as a baseline.
        skip_bad: skip invalid training and development examples.
        train_wnli: train WNLI; otherwise the most frequent label is predicted.
    """

    preset: Path
    output: Path
    rates: tuple[float, ...] = PAPER_RATES
    seeds: int = 1
    restarts: int = 1
    seed: int = TrainingConfig.seed
    training: Mapping[str, str] = field(default_factory=dict)
    max_sequence_length: int | None = None
    from_scratch: bool = False
    skip_bad: bool = False
    train_wnli: bool = False

    def __post_init__(self) -> None:
        counts = {"seeds": self.seeds, "restarts": self.restarts}
        for name, count in counts.items():
            if count < 1:
                raise ConfigError(f"`{name}` must be at least 1. Received: {count}")
        if not self.rates or min(self.rates) <= 0 or len(set(self.rates)) < len(self.rates):
            raise ConfigError(f"`rates` must be different positive numbers. Received: {list(self.rates)}")


@dataclass(frozen=True)
class RateTrial:
    """A fine-tuning run of a task.

    Args:
        data: the task and its files.
        rate: learning rate.
        seed: seed.
        run: the run.
    """

    data: TaskData
    rate: float
    seed: int
    run: Run


def trials_of(settings: GlueSettings, data: TaskData) -> list[RateTrial]:
    """Returns the runs of a task; none for WNLI unless it is trained.

    Args:
        settings: settings of the benchmark.
        data: the task and its files.
    """
    task = data.task
    if task.name == WNLI and not settings.train_wnli:
        return []
    seeds = max(settings.seeds, settings.restarts) if task.small else settings.seeds
    return [
        RateTrial(data, rate, settings.seed + number, _run(settings, data, rate, settings.seed + number))
        for rate in settings.rates
        for number in range(seeds)
    ]


def _run(settings: GlueSettings, data: TaskData, rate: float, seed: int) -> Run:
    name = f"{RUNS}/{data.task.name}/learning_rate_{rate:g}_seed_{seed}"
    training = {
        "training.batch_size": str(PAPER_BATCH),
        "training.epochs": str(PAPER_EPOCHS),
        # Checkpoints are needed only until the run ends.
        "training.keep_checkpoints": "1",
        **settings.training,
        "training.learning_rate": f"{rate:g}",
        "training.seed": str(seed),
    }
    arguments = ["finetune", data.task.name, "--preset", str(settings.preset), "--data", str(data.folder)]
    arguments += ["--output", str(settings.output / name)]
    if settings.max_sequence_length is not None:
        arguments += ["--max_sequence_length", str(settings.max_sequence_length)]
    flags = {"from_scratch": settings.from_scratch, "skip_bad": settings.skip_bad}
    arguments += [f"--{flag}" for flag, value in flags.items() if value]
    arguments += ["--set", *(f"{field}={value}" for field, value in training.items())]
    return Run(
        name,
        tuple(arguments),
        {"task": data.task.name, "max_sequence_length": settings.max_sequence_length, **flags, **training},
        {"preset": settings.preset, "training file": data.train, **_dev_inputs(data)},
        work=data.examples * float(training["training.epochs"]),
    )


def _dev_inputs(data: TaskData) -> dict[str, Path]:
    return {f"development file {path.name}": path for path in data.dev.values()}


def prediction_runs(settings: GlueSettings, best: RateTrial) -> dict[str, Run]:
    """Returns the runs that predict the test sets with the best run of a task, by the leaderboard's file.

    Args:
        settings: settings of the benchmark.
        best: the best run.
    """
    preset = settings.output / best.run.name
    trial = best.run.name.removeprefix(f"{RUNS}/")
    runs = {}
    for file, path in best.data.tests.items():
        name = f"{PREDICTIONS}/{trial}/{file.removesuffix('.tsv')}"
        output = settings.output / f"{name}.tsv"
        arguments = ("predict", "--preset", str(preset), "--input", str(path), "--output", str(output))
        runs[file] = Run(name, arguments, {}, {"preset": preset, "test file": path})
    return runs


def check_output(output: Path) -> None:
    """Checks the output directory of a benchmark.

    Args:
        output: the output directory, which may be missing.

    Raises:
        ConfigError: if it is a file, or holds files that no benchmark has written.
    """
    check_names(output, _OUTPUT_NAMES, "`bert-tf glue`")


def plan_lines(trials: Sequence[RateTrial], missing: Mapping[str, str]) -> list[str]:
    """Returns the plan as lines of text: tasks, training examples, rates and seeds, and what is missing.

    Args:
        trials: the runs of all tasks.
        missing: reasons for what is missing, by task or file.
    """
    lines = [f"{'task':<8}{'examples':>10}{'runs':>6}  learning rates and seeds"]
    by_task: dict[str, list[RateTrial]] = {}
    for trial in trials:
        by_task.setdefault(trial.data.task.title, []).append(trial)
    for title, group in by_task.items():
        rates = " ".join(f"{rate:g}" for rate in dict.fromkeys(trial.rate for trial in group))
        seeds = " ".join(str(seed) for seed in dict.fromkeys(trial.seed for trial in group))
        lines.append(f"{title:<8}{group[0].data.examples:>10,}{len(group):>6}  {rates}; {seeds}")
    return lines + [f"missing: {name}: {reason}" for name, reason in missing.items()]

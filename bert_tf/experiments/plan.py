"""Plan of an experiment: the runs that its tables need, in an order in which they can be executed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bert_tf.config import BertConfig, RunConfig, to_dict, with_overrides
from bert_tf.config.base import flatten
from bert_tf.data.manifest import Manifest, data_directories, read_manifest
from bert_tf.experiments.design import FIRST_SEED, Column, Pretraining, Row, Table
from bert_tf.experiments.runs import Run
from bert_tf.experiments.scales import Scale
from bert_tf.experiments.tasks import DERIVED_NAME, OFFICIAL, STAND_INS, TableTask, find_task, split_rows
from bert_tf.experiments.work import finetuning_flops, pretraining_flops
from bert_tf.pretraining.recipes import recipe

PRETRAINING_NAME, FINETUNING_NAME, FEATURES_NAME = "pretraining", "finetuning", "features"
# A BiLSTM on features of a frozen encoder needs the rates of an untrained model (`bert-tf finetune --features`).
_ON_FEATURES = {"training.learning_rate": 1e-3, "training.batch_size": 32}
_FEATURE_EPOCHS = {True: 2, False: 10}


@dataclass(frozen=True)
class Directories:
    """Directories of an experiment.

    Args:
        output: its output directory.
        data: pre-training data.
        tasks: task data.
    """

    output: Path
    data: Path
    tasks: Path

    @property
    def corpus(self) -> Manifest:
        """Manifest of the pre-training data; that of the shorter examples if there are two lengths."""
        return read_manifest(data_directories(self.data)[0])

    @property
    def longest(self) -> int:
        """Maximum length of the pre-training examples."""
        return read_manifest(data_directories(self.data)[-1]).config.max_seq_length

    @property
    def derived(self) -> Path:
        """Files derived from those of `tasks`."""
        return self.output / DERIVED_NAME


@dataclass(frozen=True)
class Cell:
    """The runs of one cell of a table.

    Args:
        row: its row.
        column: its column.
        trials: fine-tuning runs, a list of seeds for each learning rate; for a held-out metric, one list of one
            pre-training run.
        task: files of the task; None for a held-out metric.
        missing: reason why there are no runs, or "".
    """

    row: Row
    column: Column
    trials: Sequence[Sequence[Run]] = ()
    task: TableTask | None = None
    missing: str = ""


@dataclass
class Plan:
    """Tables with their cells, all runs by name, in order, and the configurations of the pre-training runs by name."""

    scale: Scale
    directories: Directories
    tables: list[Table] = field(default_factory=list)
    cells: dict[str, list[Cell]] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    configs: dict[str, RunConfig] = field(default_factory=dict)

    def config_of(self, start: Pretraining, settings: Mapping[str, Any]) -> RunConfig:
        """Returns the configuration of a pre-training run.

        Args:
            start: the run.
            settings: settings of all pre-training runs.
        """
        model = BertConfig.from_size(start.size, vocabulary_size=self.directories.corpus.vocabulary_size)
        values = {"training.steps": self.scale.steps, **self._settings_of(start, settings)}
        run = RunConfig(model, recipe(self.scale.recipe).training)
        return with_overrides(run, [f"{name}={value}" for name, value in values.items()])

    def _settings_of(self, start: Pretraining, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the settings of a pre-training run; the model has the positions that the data trains."""
        return {"model.max_sequence_length": self.directories.longest, **start.settings, **settings}

    def words(self, table: Table) -> str:
        """Returns the numbers of steps and seeds of a table."""
        steps = sorted({self.configs[start.name].training.steps for start in table.pretrainings})
        return f"{' or '.join(f'{count:,}' for count in steps)} steps of pre-training, {self.scale.seeds} seeds"

    def add(self, table: Table, settings: Mapping[str, Any]) -> None:
        """Adds a table; runs that another table has are shared.

        Args:
            table: the table.
            settings: settings of all pre-training runs, which replace those of the scale.
        """
        self.tables.append(table)
        for start in table.pretrainings:
            self.configs[start.name] = self.config_of(start, settings)
            self._keep(pretraining_run(start, self, self._settings_of(start, settings)))
        self.cells[table.name] = [self._cell(row, column) for row in table.rows for column in table.columns]

    @property
    def missing(self) -> dict[str, str]:
        """Reasons why cells have no runs, by the label of their column."""
        cells = (cell for cells in self.cells.values() for cell in cells)
        return {cell.column.label: cell.missing for cell in cells if cell.missing}

    def prepare(self) -> None:
        """Writes the files that are derived from the task data."""
        tasks = (cell.task for cells in self.cells.values() for cell in cells if cell.task)
        for source, folder in sorted({task.split for task in tasks if task.split}):
            split_rows(self.directories.tasks / source, self.directories.derived / folder)

    def _cell(self, row: Row, column: Column) -> Cell:
        start = self.runs[f"{PRETRAINING_NAME}/{row.start.name}"]
        if not column.task:
            return Cell(row, column, [[start]])
        task = find_task(column.task, self.directories.tasks, self.scale)
        if task is None:
            return Cell(row, column, missing=_needs(column.task, self.directories.tasks, self.scale))
        trials = [
            [self._keep(run) for run in finetuning_runs(row, column, task, trial, self)]
            for trial in _trials(row, column, task, self.scale)
        ]
        return Cell(row, column, trials, task)

    def _keep(self, run: Run) -> Run:
        return self.runs.setdefault(run.name, run)


def _needs(name: str, tasks: Path, scale: Scale) -> str:
    """Returns the rule that the files of a task break."""
    choices = [OFFICIAL[name], *([STAND_INS[name]] if scale.stand_ins and name in STAND_INS else [])]
    paths = " or ".join(str(task.missing(tasks)[0]) for task in choices)
    return f"no data: {paths} does not exist"


def pretraining_run(start: Pretraining, plan: Plan, settings: Mapping[str, Any]) -> Run:
    """Returns a pre-training run.

    Args:
        start: the run.
        plan: plan of the experiment.
        settings: its settings.
    """
    scale, directories = plan.scale, plan.directories
    config, corpus = plan.configs[start.name], directories.corpus.config
    tokens = config.training.steps * config.training.largest_batch * corpus.max_seq_length
    is_causal = "causal_lm" in start.settings.values()
    masked = max(config.training.masked_lm_shares or (corpus.masked_lm_prob,))
    flops = pretraining_flops(config.model, tokens, 1.0 if is_causal else masked)
    name = f"{PRETRAINING_NAME}/{start.name}"
    steps = scale.steps
    command = ["pretrain", "--data", str(directories.data), "--recipe", scale.recipe, "--model", start.size]
    command += ["--steps", str(steps), "--output", str(directories.output / name), *_set(settings)]
    # Settings of --set are texts.
    values = flatten(to_dict(config))
    identity = {"recipe": scale.recipe, "model": start.size, "steps": steps, **{key: values[key] for key in settings}}
    return Run(name, tuple(command), identity, {"data": directories.data}, work=flops)


def finetuning_runs(
    row: Row, column: Column, task: TableTask, settings: Mapping[str, Any], plan: Plan
) -> Iterable[Run]:
    """Yields the fine-tuning runs of a cell with one learning rate, one for each seed.

    Args:
        row: row of the cell.
        column: column of the cell.
        task: files of the task.
        settings: training settings.
        plan: plan of the experiment.
    """
    folders, scale = plan.directories, plan.scale
    flags = (*row.flags, *column.flags)
    start = row.start_name(plan.configs[row.start.name].training.steps)
    preset = folders.output / PRETRAINING_NAME / start
    cache = ["--feature_cache", str(folders.output / FEATURES_NAME / start)] if "--features" in flags else []
    changes = "_".join([start, *(flag.strip("-") for flag in flags)])
    flops = finetuning_flops(plan.configs[row.start.name].model, task, folders.tasks, settings["training.epochs"])
    for seed in range(FIRST_SEED, FIRST_SEED + scale.seeds):
        trial = f"rate_{settings['training.learning_rate']:g}_seed_{seed}"
        name = f"{FINETUNING_NAME}/{changes}/{column.task}/{trial}"
        command = ["finetune", task.task, "--preset", str(preset)]
        command += task.arguments(folders.tasks, folders.derived, scale)
        command += [*flags, *cache, "--output", str(folders.output / name)]
        command += _set({**settings, "training.seed": seed, "training.keep_checkpoints": 1})
        identity = {"task": task.task, "flags": [*task.flags_of(scale), *flags], **settings, "training.seed": seed}
        inputs = {file: folders.tasks / file for file in task.files}
        yield Run(name, tuple(command), identity, inputs, flops, (f"{PRETRAINING_NAME}/{row.start.name}",))


def _trials(row: Row, column: Column, task: TableTask, scale: Scale) -> list[dict[str, Any]]:
    """Returns the training settings of a cell, one dictionary for each learning rate."""
    if "--features" not in (*row.flags, *column.flags):
        return task.trials(scale)
    return [{**_ON_FEATURES, "training.epochs": _FEATURE_EPOCHS[scale.is_laptop]}]


def _set(values: Mapping[str, Any]) -> list[str]:
    """Returns the flag --set with settings."""
    return ["--set", *(f"{name}={value}" for name, value in sorted(values.items()))] if values else []

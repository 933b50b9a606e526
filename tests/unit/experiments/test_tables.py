"""Tables of the paper: their rows, the runs that they need, and the pages of finished runs."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from bert_tf.cli import build_parser
from bert_tf.config import ConfigError, DataConfig
from bert_tf.encoding.answers import SquadAnswer
from bert_tf.encoding.choices import ChoiceAnswer, ChoiceExample
from bert_tf.encoding.spans import GoldSpan, SquadExample
from bert_tf.encoding.texts import LabelAnswer, NumberAnswer, TextExample
from bert_tf.encoding.words import NerAnswer, Sentence
from bert_tf.experiments import results
from bert_tf.experiments.plan import Directories, Plan
from bert_tf.experiments.registry import TABLES, table
from bert_tf.experiments.results import write_tables
from bert_tf.experiments.runs import Run, Runs
from bert_tf.experiments.scales import LAPTOP, PAPER, SCALES, scale
from bert_tf.experiments.tasks import OFFICIAL, STAND_INS, split_rows
from bert_tf.tasks.example_scores import mean_scores, write_example_scores
from bert_tf.tasks.registry import task_class
from tests.support.data.samples import make_vocabulary, write_directory

EXAMPLES = 400


@pytest.fixture
def directories(tmp_path: Path) -> Directories:
    """An output directory, pre-training data and the files of all stand-ins."""
    (tmp_path / "data").mkdir()
    write_directory(
        tmp_path / "data", DataConfig(max_seq_length=32), make_vocabulary(), {"train": [8], "validation": [2]}
    )
    for task in STAND_INS.values():
        for name in task.files:
            (tmp_path / "tasks" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "tasks" / name).write_text("header\n" + "row\n" * 9)
    return Directories(tmp_path / "out", tmp_path / "data", tmp_path / "tasks")


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RESAMPLES", 400)


def plan_of(directories: Directories, *names: str, scale_name: str = LAPTOP) -> Plan:
    plan = Plan(scale(scale_name), directories)
    for name in names:
        plan.add(table(name, plan.scale), {})
    return plan


@pytest.mark.parametrize("scale_name", SCALES)
@pytest.mark.parametrize("name", TABLES)
def test_every_command_of_a_table_is_accepted(directories, name, scale_name):
    parser = build_parser()
    for run in plan_of(directories, name, scale_name=scale_name).runs.values():
        args = parser.parse_args(run.command)
        assert args.output == directories.output / run.name


@pytest.mark.parametrize("name", TABLES)
def test_metrics_are_those_of_the_task(name):
    for column in table(name, scale(PAPER)).columns:
        for tasks in (OFFICIAL, STAND_INS) if column.task else ():
            if task := tasks.get(column.task):
                assert column.metric in metrics_of(task.task)


def metrics_of(name):
    """Returns the metrics with statistics of examples of a task, from a correct prediction."""
    task = task_class(name)()
    if name.startswith("squad"):
        example = SquadExample("line 1", "1", "q", "a text", (GoldSpan("text", 2, 6),))
        return task.example_scores([example], [SquadAnswer("text")])
    if name == "ner":
        sentence = Sentence(Path("x"), 1, ("Bonn",), ("B-LOC",), ("Bonn B-LOC",), " ")
        return task.example_scores([sentence], [NerAnswer(("B-LOC",))])
    if name == "swag":
        return task.example_scores([ChoiceExample("line 1", 0, "a", "b", ("c", "d"), 1)], [ChoiceAnswer(1)])
    if name == "stsb":
        return task.example_scores([TextExample("line 1", ("a", "b"), "2.0")], [NumberAnswer(2.0)])
    return task.example_scores([TextExample("line 1", ("a",), "x")], [LabelAnswer("x", (1.0,))])


def test_a_model_has_the_positions_of_its_data(directories):
    plan = plan_of(directories, "table8")
    assert {config.model.max_sequence_length for config in plan.configs.values()} == {32}
    assert all("model.max_sequence_length=32" in run.command for run in plan.runs.values() if not run.after)


def test_settings_of_fine_tuning_are_the_paper_s_at_its_scale(directories):
    for name in ("squad2", "swag"):
        (trial,) = OFFICIAL[name].trials(scale(PAPER))
        expected = {"squad2": (5e-5, 48, 2), "swag": (2e-5, 16, 3)}[name]
        assert tuple(trial[f"training.{key}"] for key in ("learning_rate", "batch_size", "epochs")) == expected
    rates = [trial["training.learning_rate"] for trial in OFFICIAL["mrpc"].trials(scale(PAPER))]
    assert rates == [5e-5, 4e-5, 3e-5, 2e-5]


def test_tables_share_runs(directories):
    alone = [set(plan_of(directories, name).runs) for name in ("table5", "figure5")]
    both = plan_of(directories, "table5", "figure5")
    assert set(both.runs) == alone[0] | alone[1]
    assert {"pretraining/bert", "pretraining/ltr"} <= alone[0] & alone[1]
    # The last step of the figure is the end of the runs.
    last = {name for name in alone[1] if name.startswith(("finetuning/bert/mnli", "finetuning/ltr/mnli"))}
    assert len(last) == 2 * scale(LAPTOP).seeds and last <= alone[0]


def test_a_fine_tuning_waits_for_its_pre_training(directories):
    plan = plan_of(directories, "table5")
    runs = Runs(directories.output, list(plan.runs.values()))
    assert {run.name for run in runs.pending()} == {"pretraining/bert", "pretraining/no_nsp", "pretraining/ltr"}


def test_missing_data_empties_its_column_only(directories):
    plan = plan_of(directories, "table5")
    assert set(plan.missing) == {"MRPC", "SST-2"}
    assert str(directories.tasks / "glue" / "MRPC" / "train.tsv") in plan.missing["MRPC"]
    assert any("/mnli/" in name for name in plan.runs)


def test_other_data_replaces_official_data_only_on_a_laptop(directories):
    assert "MNLI-m" in plan_of(directories, "table5", scale_name=PAPER).missing


def test_settings_of_the_user_replace_those_of_the_scale(directories):
    plan = Plan(scale(LAPTOP), directories)
    plan.add(table("figure5", plan.scale), {"training.precision": "bfloat16"})
    assert "training.precision=bfloat16" in plan.runs["pretraining/bert"].command


def test_the_same_settings_of_the_user_reuse_the_runs_of_the_scale(directories):
    batch_size = scale(LAPTOP).settings["training.batch_size"]
    found = []
    for settings in ({}, {"training.batch_size": str(batch_size)}, {"training.batch_size": "8"}):
        plan = Plan(scale(LAPTOP), directories)
        plan.add(table("figure5", plan.scale), settings)
        found.append(plan.runs["pretraining/bert"].settings)
    assert found[0] == found[1] != found[2]


def test_other_steps_keep_the_checkpoints_of_the_figure(directories):
    plan = Plan(scale(LAPTOP).with_steps(10), directories)
    plan.add(table("figure5", plan.scale), {})
    command = plan.runs["pretraining/bert"].command
    assert command[command.index("--steps") + 1] == "10"
    assert {"training.keep_every=2", "training.checkpoint_every=2"} <= set(command)
    assert {row.step for row in plan.tables[0].rows} == {2, 4, 6, 8, 10}
    with pytest.raises(ConfigError, match="7"):
        scale(LAPTOP).with_steps(7)


def test_an_unknown_table_is_named():
    with pytest.raises(ConfigError, match="table9"):
        table("table9", scale(LAPTOP))


class Executor:
    """Writes the results that runs would write; accuracies differ between the rows by `gains`."""

    def __init__(self, directories: Directories, gains: dict[str, float], failing: str = "") -> None:
        self.directories, self.gains, self.failing = directories, gains, failing

    def __call__(self, run: Run) -> dict:
        if self.failing and self.failing in run.name:
            raise RuntimeError("no space left")
        if run.name.startswith("pretraining/"):
            return {"mlm_perplexity": 12.5}
        start = run.name.split("/")[1]
        seed = run.settings["training.seed"]
        correct = np.random.default_rng(seed).random(EXAMPLES) < 0.6 + self.gains.get(start, 0.0)
        folder = self.directories.output / run.name / "dev"
        folder.mkdir(parents=True, exist_ok=True)
        scores = {name: mean_scores(correct.astype(float)) for name in ("accuracy", "f1")}
        write_example_scores(folder / "example_scores.npz", scores)
        return {"metrics": {name: one.value for name, one in scores.items()}}


def results_of(directories, name, gains, failing=""):
    plan = plan_of(directories, name)
    runs = Runs(directories.output, list(plan.runs.values()))
    plan.prepare()
    runs.execute_all(Executor(directories, gains, failing))
    (page,) = write_tables(plan, runs)
    return page, json.loads(page.with_suffix(".json").read_text())


def test_directions_are_compared_with_the_paper(directories):
    # The paper: MNLI 84.4, 83.9 without NSP, 82.1 left to right.
    page, result = results_of(directories, "table5", {"bert": 0.3, "no_nsp": 0.0, "ltr": 0.2})
    outcomes = {
        (one["first"], one["second"]): one["outcome"] for one in result["compared"] if one["column"] == "MNLI-m"
    }
    assert outcomes == {
        ("BERT", "No NSP"): "same direction",
        ("No NSP", "LTR & No NSP"): "reversed",
        ("+ BiLSTM", "LTR & No NSP"): "no direction in the paper",
    }
    cell = next(cell for cell in result["cells"] if (cell["row"], cell["column"]) == ("BERT", "MNLI-m"))
    assert len(cell["values"]) == scale(LAPTOP).seeds
    assert cell["mean"] == pytest.approx(np.mean(cell["values"]))
    assert cell["paper"] == 84.4
    text = page.read_text(encoding="utf-8")
    assert "SICK" in text
    assert "glue/MRPC/train.tsv" in text
    picture = ElementTree.parse(page.with_suffix(".svg")).getroot()
    drawn = [one for one in result["compared"] if one["difference"] is not None]
    rings = [dot for dot in picture.findall("{*}circle") if dot.get("class") == "run best"]
    assert len(rings) == sum(one["paper"] is not None for one in drawn) > 0


def test_equal_systems_are_within_noise(directories):
    _, result = results_of(directories, "table5", {})
    assert {one["outcome"] for one in result["compared"] if one["column"] == "MNLI-m"} >= {"within noise"}


def test_a_failed_run_is_named_and_the_rest_is_written(directories):
    page, result = results_of(directories, "table5", {}, failing="pretraining/no_nsp")
    cells = {(cell["row"], cell["column"]): cell for cell in result["cells"]}
    assert "no_nsp" in cells["No NSP", "MNLI-m"]["missing"]
    assert cells["BERT", "MNLI-m"]["values"]
    assert "no_nsp" in page.read_text(encoding="utf-8")


def test_missing_seeds_are_named(directories):
    _, result = results_of(directories, "table5", {}, failing="bert/mnli/rate_0.001_seed_2")
    cell = next(cell for cell in result["cells"] if (cell["row"], cell["column"]) == ("BERT", "MNLI-m"))
    assert len(cell["values"]) == 2
    assert any("BERT, MNLI-m: 2 of 3 seeds" in note and "no space left" in note for note in result["notes"])


def test_perplexities_are_compared_without_an_interval(directories):
    _, result = results_of(directories, "table6", {})
    one = next(one for one in result["compared"] if one["column"] == "LM perplexity")
    assert (one["difference"], one["interval"]) == (0.0, None)


def test_a_figure_has_lines(directories):
    page, _ = results_of(directories, "figure5", {})
    text = page.read_text(encoding="utf-8")
    assert text.count("<polyline") == 2
    assert f"step {scale(LAPTOP).steps // 5:,}" in text
    picture = ElementTree.parse(page.with_suffix(".svg")).getroot()
    assert len(picture.findall("{*}polyline")) == 2
    # The file has the styles of its lines, without the page's.
    assert ".series1" in picture.findtext("{*}style")


def test_runs_with_other_examples_are_not_compared(directories):
    plan = plan_of(directories, "figure5")
    runs = Runs(directories.output, list(plan.runs.values()))
    plan.prepare()
    runs.execute_all(Executor(directories, {}))
    folder = directories.output / next(name for name in plan.runs if name.startswith("finetuning/ltr")) / "dev"
    write_example_scores(folder / "example_scores.npz", {"accuracy": mean_scores([1.0] * 3)})
    with pytest.raises(ValueError, match=f"3, {EXAMPLES}"):
        write_tables(plan, runs)


def test_a_split_file_loses_no_row(tmp_path):
    rows = [f"{number}\ttext {number}\n" for number in range(200)]
    (tmp_path / "all.tsv").write_text("index\ttext\n" + "".join(rows))
    split_rows(tmp_path / "all.tsv", tmp_path / "split")
    parts = [(tmp_path / "split" / name).read_text().splitlines(True) for name in ("train.tsv", "dev.tsv")]
    assert [part[0] for part in parts] == ["index\ttext\n"] * 2
    assert sorted(parts[0][1:] + parts[1][1:]) == sorted(rows)
    assert 20 < len(parts[1]) < 60  # a fifth of 200, within three standard deviations and more

"""The benchmark with replaced commands: choice of the best run, files, reuse, comparison, and missing parts."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import matthews_corrcoef

from bert_tf.config import ConfigError
from bert_tf.experiments.glue.benchmark import run_benchmark
from bert_tf.experiments.glue.plan import GlueSettings
from bert_tf.experiments.glue.table import GlueResults, text_table
from bert_tf.experiments.glue.tasks import TASKS, find_data
from bert_tf.tasks.glue import submission
from tests.support.experiments.glue_samples import LABELS, ROWS, FakeCommands, write_diagnostic_labels, write_glue
from tests.support.reports.page_reader import Page


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_glue(tmp_path_factory.mktemp("glue") / "GLUE")


@pytest.fixture(autouse=True)
def small_test_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    sets = {name: dataclasses.replace(one, rows=ROWS["test.tsv"]) for name, one in submission.TEST_SETS.items()}
    monkeypatch.setattr(submission, "TEST_SETS", sets)


@pytest.fixture(scope="module")
def preset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("preset")
    (directory / "config.json").write_text('{"format_version": 2}')
    return directory


def benchmark(
    settings: GlueSettings, data: Path, commands: FakeCommands, names: tuple[str, ...] = tuple(TASKS), **more: Path
) -> tuple[GlueResults, Path | None]:
    found, missing = find_data(data, names)
    return run_benchmark(settings, found, missing, commands, **more)


def rate_decides(name: str, rate: float, seed: int) -> float:
    """The second rate is best, and its second seed still better."""
    return 0.6 + 0.2 * (rate == 3e-5) + 0.15 * (rate == 3e-5 and seed == 8)


def test_the_whole_benchmark(tmp_path: Path, data: Path, preset: Path) -> None:
    settings = GlueSettings(preset, tmp_path, (5e-5, 3e-5), restarts=2, seed=7)
    commands = FakeCommands(rate_decides)
    results, zipped = benchmark(settings, data, commands)
    finetuned = [name for name in commands.names if name.startswith("runs/")]
    # Two rates, with two seeds for CoLA, MRPC, STS-B and RTE; WNLI is not trained.
    assert len(finetuned) == 2 * (4 * 2 + 4)
    assert not any("wnli" in name for name in commands.names)
    assert {name: result.best and (result.best.rate, result.best.seed) for name, result in results.tasks.items()} == {
        name: (3e-5, 8) if task.small and name != "wnli" else None if name == "wnli" else (3e-5, 7)
        for name, task in TASKS.items()
    }
    assert results.missing == {}
    assert results.tasks["cola"].over_seeds.count == 2 and results.tasks["sst2"].over_seeds.count == 1
    assert list(tmp_path.rglob("checkpoints")) == []

    written = json.loads((tmp_path / "glue.json").read_text())
    scores = {name: result["score"] for name, result in written["tasks"].items()}
    assert written["average"] == pytest.approx(np.mean(list(scores.values())))
    assert written["average_without_wnli"] == pytest.approx(
        np.mean([scores[name] for name in scores if name != "wnli"])
    )
    mnli = written["tasks"]["mnli"]
    assert mnli["score"] == pytest.approx(50 * (mnli["metrics"]["accuracy"] + mnli["metrics"]["accuracy_mismatched"]))

    assert zipped == tmp_path / "submission.zip"
    with zipfile.ZipFile(zipped) as archive:
        assert sorted(archive.namelist()) == sorted(submission.TEST_SETS)
        assert archive.read("RTE.tsv").decode().splitlines()[:2] == ["index\tprediction", "0\tentailment"]
        (label,) = {line.split("\t")[1] for line in archive.read("WNLI.tsv").decode().splitlines()[1:]}
    train = [line.rpartition("\t")[2] for line in (data / "WNLI/train.tsv").read_text().splitlines()[1:]]
    assert label == max("01", key=train.count)

    text = text_table(results)
    assert "BERT Tiny" in text and "79.6" in text
    page = Page((tmp_path / "glue.html").read_text())
    page.refuse_foreign()
    assert any("82.1" in cell for cell in page.texts("td"))


def test_finished_runs_are_reused_and_other_ones_named(tmp_path: Path, data: Path, preset: Path) -> None:
    settings = GlueSettings(preset, tmp_path, (3e-5,))
    benchmark(settings, data, FakeCommands(), ("sst2", "rte"))
    again = FakeCommands()
    benchmark(settings, data, again, ("sst2", "rte"))
    assert again.names == []
    more = FakeCommands()
    results, _ = benchmark(dataclasses.replace(settings, rates=(3e-5, 2e-5)), data, more, ("sst2",))
    assert "runs/sst2/learning_rate_2e-05_seed_12345" in more.names
    assert "runs/sst2/learning_rate_3e-05_seed_12345" not in more.names
    assert len(results.tasks["sst2"].records) == 2
    longer = dataclasses.replace(settings, rates=(3e-5, 1e-5), training={"training.epochs": "4"})
    results, _ = benchmark(longer, data, FakeCommands(), ("sst2",))
    assert "training.epochs 3 (now 4)" in results.missing["runs/sst2/learning_rate_3e-05_seed_12345"]
    assert results.tasks["sst2"].best.rate == 1e-5
    with pytest.raises(ConfigError, match="no task has a result"):
        benchmark(dataclasses.replace(longer, rates=(3e-5,)), data, FakeCommands(), ("sst2",))


def test_missing_parts_are_named_and_the_rest_is_made(tmp_path: Path, preset: Path) -> None:
    data = write_glue(tmp_path / "GLUE", ("rte", "sst2", "wnli", "qnli"))
    (data / "QNLI/train.tsv").unlink()
    (data / "RTE/test.tsv").unlink()
    (data / "SST-2").rename(data / "sst2")

    def failing(name: str, rate: float, seed: int) -> float:
        if rate == 5e-5:
            raise ValueError("the loss is nan")
        return 0.9

    settings = GlueSettings(preset, tmp_path / "out", (5e-5, 3e-5))
    results, zipped = benchmark(settings, data, FakeCommands(failing))
    assert set(results.tasks) == {"rte", "sst2", "wnli"} and zipped is None
    assert "train.tsv" in results.missing["QNLI"] and "MNLI" in results.missing
    assert "test.tsv" in results.missing["RTE.tsv"]
    assert "the loss is nan" in results.missing["runs/rte/learning_rate_5e-05_seed_12345"]
    assert "RTE.tsv" in results.missing["submission.zip"] and "SST-2.tsv" not in results.missing["submission.zip"]
    written = json.loads((tmp_path / "out/glue.json").read_text())
    assert written["average"] is None and written["mean_of_tasks"] is not None


def test_two_presets_are_compared(tmp_path: Path, data: Path, preset: Path) -> None:
    settings = GlueSettings(preset, tmp_path / "first", (3e-5,))
    better = {"sst2": 0.95, "stsb": 0.95, "mnli": 0.9}
    names = (*better, "cola", "rte")
    benchmark(settings, data, FakeCommands(lambda name, rate, seed: 0.6), names)
    commands = FakeCommands(lambda name, rate, seed: better.get(name, 0.6))
    second = dataclasses.replace(settings, output=tmp_path / "second")
    results, _ = benchmark(second, data, commands, names, other=tmp_path / "first")
    significant = {name for name, one in results.comparisons.items() if one.comparison.significant}
    assert significant == set(better) and set(results.comparisons) == set(names)
    for name, one in results.comparisons.items():
        assert one.comparison.difference == pytest.approx(results.tasks[name].score - one.other, abs=0.1)
        assert (one.mcnemar is None) == (name == "stsb")
    assert results.comparisons["sst2"].mcnemar < 0.01
    page = Page((tmp_path / "second/glue.html").read_text())
    assert {"better", "within noise"} <= set(page.texts("td"))


def test_the_diagnostic_set_is_scored_outside_the_averages(tmp_path: Path, preset: Path) -> None:
    data = write_glue(tmp_path / "GLUE", ("mnli", "rte"))
    labels = write_diagnostic_labels(data)
    predicted = [LABELS["mnli"][number % 3] for number in range(len(labels))]
    settings = GlueSettings(preset, tmp_path / "out", (3e-5,))
    results, _ = benchmark(settings, data, FakeCommands())
    written = json.loads((tmp_path / "out/glue.json").read_text())
    ax = written["tasks"]["ax"]
    assert ax["score"] == pytest.approx(100 * matthews_corrcoef(labels, predicted)) and ax["score"] != 0
    assert written["mean_of_tasks"] == pytest.approx(np.mean([results.scores["mnli"], results.scores["rte"]]))
    (ours,) = (line for line in text_table(results).splitlines() if "this preset" in line and "published" not in line)
    assert f"{ax['score']:.1f}" in ours
    page = Page((tmp_path / "out/glue.html").read_text())
    assert "AX" in page.texts("th") and "21.0" in page.texts("td")
    # A second preset with the same predictions.
    second = dataclasses.replace(settings, output=tmp_path / "second")
    results, _ = benchmark(second, data, FakeCommands(), other=tmp_path / "out")
    assert results.comparisons["ax"].comparison.difference == 0

    (data / "diagnostic/diagnostic-full.tsv").write_text("Premise\tHypothesis\tLabel\na cat\ta dog\tneutral\n")
    results, _ = benchmark(settings, data, FakeCommands())
    assert "ax" not in results.tasks and "index" in results.missing["AX"]


def test_other_examples_are_not_compared(tmp_path: Path, data: Path, preset: Path) -> None:
    settings = GlueSettings(preset, tmp_path / "first", (3e-5,))
    benchmark(settings, data, FakeCommands(), ("sst2",))
    path = tmp_path / "first/dev/SST-2.tsv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    second = dataclasses.replace(settings, output=tmp_path / "second")
    results, _ = benchmark(second, data, FakeCommands(), ("sst2", "rte"), other=tmp_path / "first")
    assert results.comparisons == {}
    assert "no prediction" in results.missing["comparison of SST-2"]
    assert "no result" in results.missing["comparison of RTE"]

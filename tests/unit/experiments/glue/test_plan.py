"""Plan of the benchmark: commands of the runs, and settings and paths that cannot work."""

from __future__ import annotations

from pathlib import Path

import pytest

from bert_tf.cli import main
from bert_tf.config import ConfigError
from bert_tf.experiments.glue.plan import GlueSettings, check_output, trials_of
from bert_tf.experiments.glue.published import PUBLISHED
from bert_tf.experiments.glue.tasks import TASKS, TaskData


def test_the_grid_is_that_of_the_paper() -> None:
    """ArXiv 1810.04805, 4.1: batches of 32, three epochs, rates 5e-5, 4e-5, 3e-5 and 2e-5."""
    trials = trials_of(GlueSettings(Path("p"), Path("out")), TaskData(TASKS["rte"], Path("RTE"), {}, 10))
    assert [trial.rate for trial in trials] == [5e-5, 4e-5, 3e-5, 2e-5]
    assert {"training.batch_size=32", "training.epochs=3", "training.learning_rate=5e-05"} <= set(trials[0].run.command)
    assert trials[0].run.work == 30


@pytest.mark.parametrize("fields", [{"rates": ()}, {"rates": (1e-5, 1e-5)}, {"rates": (-1.0,)}, {"seeds": 0}])
def test_settings_are_checked(fields: dict) -> None:
    with pytest.raises(ConfigError, match="Received"):
        GlueSettings(Path("p"), Path("out"), **fields)


def test_the_output_of_other_commands_is_refused(tmp_path: Path) -> None:
    (tmp_path / "glue.json").touch()
    check_output(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(ConfigError, match="checkpoints"):
        check_output(tmp_path)


def test_only_presets_and_benchmarks_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text('{"format_version": 2}')
    argv = ["glue", "--preset", tmp_path, "--data", tmp_path, "--output", tmp_path / "out"]
    (tmp_path / "unfinished/runs").mkdir(parents=True)
    assert main([*map(str, argv), "--compare", str(tmp_path / "unfinished")]) == 1
    assert "without glue.json" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert main([*map(str, argv), "--compare", str(tmp_path / "empty")]) == 1
    assert "--compare must be a preset" in capsys.readouterr().err
    assert main([str(argument) for argument in argv]) == 1
    assert "no folder CoLA" in capsys.readouterr().err


def test_published_averages_are_those_of_the_source() -> None:
    """The miniatures' scores are averages of nine tasks; the README rounds them differently by at most 0.1."""
    means = {row.name: row.mean(tuple(TASKS)) for row in PUBLISHED}
    scores = {"BERT Tiny": 64.2, "BERT Mini": 65.8, "BERT Small": 71.2, "BERT Medium": 73.5}
    for name, score in scores.items():
        assert means[name] == pytest.approx(score, abs=0.1)
    assert means["BERT Base"] is None

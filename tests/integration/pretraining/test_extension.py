"""Runs that are extended from the constant part of their schedule, or decayed early."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from bert_tf.cli import main
from bert_tf.config import ConfigError
from bert_tf.config.preset_names import checkpoint_steps
from tests.support.training.data_directory import write_small_data

SETTINGS = (
    "training.batch_size=8",
    "training.checkpoint_every=4",
    "training.log_every=5",
    "training.learning_rate=1e-2",
    "training.optimizer=muon",
    "training.schedule=trapezoidal",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    write_small_data(folder)
    return folder


def pretrain(home: Path, output: str | Path, steps: int, *settings: str, flags: tuple = ()) -> None:
    paths = ["--data", home / "data", "--model", home / "model.json", "--output", home / output]
    arguments = ["pretrain", *paths, "--steps", steps, *flags, "--set", *SETTINGS, *settings]
    assert main([str(argument) for argument in arguments]) == 0


def state(home: Path, output: str, step: int) -> dict[str, Any]:
    return json.loads((home / output / f"checkpoints/step-{step:08d}/state.json").read_text())


@pytest.fixture(scope="module")
def whole(home) -> dict[str, Any]:
    """Checksums of a run that had 20 steps, with the warm-up of 10 steps, from the start."""
    pretrain(home, "whole", 20, "training.warmup_steps=1")
    return state(home, "whole", 20)["files"]


def test_an_extended_run_equals_a_run_that_was_longer_from_the_start(home, whole, caplog):
    """The first run has finished its decay; the checkpoint before the decay is kept although only one is."""
    pretrain(home, "extended", 10, "training.keep_checkpoints=1")
    assert checkpoint_steps(home / "extended/checkpoints") == [8, 10]
    with caplog.at_level(logging.WARNING):
        pretrain(home, "extended", 20)
    assert "goes on from step 8" in caplog.text
    assert state(home, "extended", 20)["files"] == whole
    assert (home / "extended/checkpoints/step-00000010.superseded/state.json").is_file()
    history = [json.loads(line) for line in (home / "extended/history.jsonl").read_text().splitlines()]
    assert [line["step"] for line in history if line["split"] == "train"] == [4, 5, 8, 10, 12, 15, 16, 20]
    # The same command resumes it: nothing is left to do, and nothing is set aside again.
    pretrain(home, "extended", 20)
    assert state(home, "extended", 20)["files"] == whole


def test_an_early_decay_ends_the_run(home):
    """The planned decay of 20 steps takes 4, so that a decay from step 8 ends after 12."""
    pretrain(home, "early", 20, "training.keep_checkpoints=5")
    pretrain(home, "early", 20, "training.keep_checkpoints=5", flags=("--decay_from", "8"))
    assert checkpoint_steps(home / "early/checkpoints") == [4, 8, 12]
    lines = [json.loads(line) for line in (home / "early/history.jsonl").read_text().splitlines()]
    rates = {line["step"]: line["learning_rate"] for line in lines if line["split"] == "train"}
    assert rates == pytest.approx({4: 1e-2, 5: 1e-2, 8: 1e-2, 10: 7.5e-3, 12: 2.5e-3})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("training.learning_rate=1e-3",), "another `training.learning_rate`"),
        (("training.warmup_steps=3",), r"another `training.warmup_steps` \(1\). Received: 3"),
        (("training.decay_steps=18",), r"in common, 2 or less. Received: step-00000020, .*--init .*latest"),
    ],
)
def test_another_run_is_not_extended(home, whole, settings, message):
    del whole
    before = checkpoint_steps(home / "whole/checkpoints")
    with pytest.raises(ConfigError, match=message):
        _run(home, "whole", 20 if "decay" in settings[0] else 30, "training.warmup_steps=1", *settings)
    assert checkpoint_steps(home / "whole/checkpoints") == before


def _run(home: Path, output: str, steps: int, *settings: str) -> None:
    from bert_tf.config import BertConfig, RunConfig, TrainingConfig, with_overrides
    from bert_tf.pretraining.run import run_pretraining

    model = BertConfig.from_name_or_path(str(home / "model.json"), vocabulary_size=205)
    run = with_overrides(RunConfig(model, TrainingConfig(steps=steps)), [*SETTINGS, *settings])
    run_pretraining(home / "data", run, home / output)


def test_a_linear_schedule_says_what_to_do_instead(home):
    linear = ("training.schedule=linear", "training.checkpoint_every=2")
    _run(home, "linear", 2, *linear)
    with pytest.raises(ConfigError, match=r"another `steps` \(2\). Received: 4. .*--init .*linear@latest"):
        _run(home, "linear", 4, *linear)


def test_checkpoints_of_versions_without_a_setting_are_resumed(home):
    """Their runs did what the defaults of new settings do."""
    settings = ("training.schedule=linear", "training.optimizer=adamw", "training.checkpoint_every=2")
    _run(home, "former", 2, *settings)
    path = home / "former/checkpoints/step-00000002/state.json"
    stored = json.loads(path.read_text())
    new = [name for name in stored["run"] if name.startswith(("training.matrix_", "training.decay_steps"))]
    assert len(new) == 4
    stored["run"] = {name: value for name, value in stored["run"].items() if name not in new}
    path.write_text(json.dumps(stored))
    _run(home, "former", 2, *settings)
    with pytest.raises(ConfigError, match="another `training.matrix_momentum` .0.95."):
        _run(home, "former", 2, *settings, "training.matrix_momentum=0.9")


def test_the_decay_needs_the_trapezoidal_schedule(home, capsys):
    arguments = ["pretrain", "--data", home / "data", "--output", home / "none", "--decay_from", "1"]
    assert main([*map(str, arguments)]) != 0
    assert "Set training.schedule=trapezoidal" in capsys.readouterr().err
    arguments += ["--steps", "100", "--set", "training.schedule=trapezoidal"]
    assert main([*map(str, arguments)]) != 0
    assert "at least the warm-up, 2 steps. Received: 1" in capsys.readouterr().err
    assert not (home / "none").exists()

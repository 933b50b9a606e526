"""Names of presets: directories, runs, steps of runs, and checkpoints of other programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from bert_tf.config import ConfigError
from bert_tf.config.preset_names import find_preset, preset_directory
from tests.support.paths import TESTDATA


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with checkpoints of three steps, and other entries beside them."""
    run = tmp_path / "run"
    for name in ("step-00001000", "step-00002000", "step-100000000", "step-00003000.damaged", ".staging-step-00004000"):
        (run / "checkpoints" / name).mkdir(parents=True)
        (run / "checkpoints" / name / "state.json").write_text("{}")
    return run


def test_a_run_stands_for_its_preset(tmp_path: Path) -> None:
    assert preset_directory(tmp_path) == tmp_path
    (tmp_path / "preset").mkdir()
    (tmp_path / "preset" / "config.json").write_text("{}")
    assert preset_directory(tmp_path) == tmp_path / "preset"
    (tmp_path / "config.json").write_text("{}")
    assert preset_directory(tmp_path) == tmp_path


@pytest.mark.parametrize(
    ("step", "name"), [("2000", "step-00002000"), ("01000", "step-00001000"), ("latest", "step-100000000")]
)
def test_a_step_is_a_checkpoint(step: str, name: str, run: Path) -> None:
    assert find_preset(f"{run}@{step}") == (run / "checkpoints" / name, "checkpoint")
    assert find_preset(run / "checkpoints" / name) == (run / "checkpoints" / name, "checkpoint")


def test_a_missing_step_names_the_others(run: Path) -> None:
    with pytest.raises(ConfigError, match="1000, 2000, 100000000. Received: 3000"):
        preset_directory(f"{run}@3000")
    with pytest.raises(ConfigError, match="no checkpoints"):
        preset_directory(f"{run.parent}@latest")


def test_a_directory_may_have_such_a_name(run: Path) -> None:
    (run.parent / "run@1000").mkdir()
    assert preset_directory(run.parent / "run@1000") == run.parent / "run@1000"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("huggingface_backbone", "huggingface"),
        ("huggingface_sequence_classification", "huggingface"),
        ("keras_hub_masked_lm", "keras_hub"),
        ("google_tf1_pretrained", "tensorflow"),
        ("google_tf1_pretrained/model.ckpt-3", "tensorflow"),
        ("google_tf1_squad_v1/bert_model.ckpt", "tensorflow"),
        ("model_garden_encoder", "tensorflow"),
        ("seqeval.json", ""),
        ("nothing", ""),
    ],
)
def test_checkpoints_of_other_programs_are_recognised(name: str, kind: str) -> None:
    assert find_preset(TESTDATA / name) == (TESTDATA / name, kind)


def test_hf_is_for_directories_of_transformers() -> None:
    path = TESTDATA / "huggingface_backbone"
    assert find_preset(f"hf:{path}") == (path, "huggingface")
    with pytest.raises(ConfigError, match="Received: .*keras_hub_backbone, keras_hub"):
        find_preset(f"hf:{TESTDATA / 'keras_hub_backbone'}")
    with pytest.raises(ConfigError, match="URL"):
        preset_directory("gs://bucket/run")

"""Errors of `bert-tf pretrain`: the message names file and field, and nothing is written."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bert_tf.cli import main
from bert_tf.training.loop import checkpoints
from tests.support.training.data_directory import MODEL, write_small_data


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_small_data(tmp_path)
    return tmp_path


def pretrain(folder: Path, *settings: str, data: str = "data", output: str = "run", model: str = "model.json") -> int:
    paths = ["--data", folder / data, "--model", folder / model, "--output", folder / output, "--steps", 4]
    return main([str(part) for part in ("pretrain", *paths, "--set", "training.batch_size=8", *settings)])


def change(manifest: Path, **fields: object) -> None:
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | fields))


def delete_manifest(data: Path) -> None:
    (data / "manifest.json").unlink()


def age_the_schema(data: Path) -> None:
    change(data / "manifest.json", schema_version=1)


def raise_max_predictions(data: Path) -> None:
    config = json.loads((data / "manifest.json").read_text())["config"]
    change(data / "manifest.json", config=config | {"max_predictions_per_seq": 33})


def truncate_shard(data: Path) -> None:
    os.truncate(data / "train-00000-of-00001.tfrecord", 100)


def replace_vocabulary(data: Path) -> None:
    pieces = (data / "vocab.txt").read_text().splitlines()
    (data / "vocab.txt").write_text("\n".join([*pieces[:-1], "other"]) + "\n")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (delete_manifest, "manifest.json is missing"),
        (age_the_schema, "manifest.json: `schema_version` must be 2. Received: 1"),
        (raise_max_predictions, "`max_predictions_per_seq` must not exceed `max_seq_length`. Received: 33 and 32"),
        (truncate_shard, "train-00000-of-00001.tfrecord: must have "),
        (replace_vocabulary, "data: the data was made with a vocabulary of 205 pieces"),
    ],
)
def test_damaged_data_is_refused(folder, capsys, spoil, message):
    spoil(folder / "data")
    assert pretrain(folder) == 1
    assert message in capsys.readouterr().err
    assert not (folder / "run").exists()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"vocabulary_size": 300}, "`vocabulary_size` must be 205 here. Received: 300"),
        ({"max_sequence_length": 16}, "must not exceed `model.max_sequence_length`. Received: 32 and 16"),
    ],
)
def test_model_that_does_not_match_the_data_is_refused(folder, capsys, fields, message):
    (folder / "other.json").write_text(json.dumps(MODEL | fields))
    assert pretrain(folder, model="other.json") == 1
    assert message in capsys.readouterr().err
    assert not (folder / "run").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["training.accumulate=3"], "`training.batch_size` must be a multiple"),
        (["training.strategy=mirrored", "training.num_replicas=3"], "`training.batch_size` must be a multiple"),
        (["training.strategy=multi_worker"], "multi_worker needs TF_CONFIG"),
        (["training.strategy=tpu", "training.precision=float16"], "`training.precision` must be bfloat16 or float32"),
        (
            ["training.strategy=parameter_server"],
            "`training.strategy` must be one of none, mirrored, multi_worker, tpu",
        ),
        (["model.attention=sideways"], "`attention` must be one of bidirectional, left_to_right"),
        (["model.attention=left_to_right"], "Set training.objective=causal_lm"),
        (["training.objective=causal_lm"], "Set model.attention=left_to_right"),
        (["training.objective=causal_lm", "model.attention=left_to_right"], "Set training.nsp_weight=0"),
        (
            [
                "training.objective=causal_lm",
                "model.attention=left_to_right",
                "training.nsp_weight=0",
                "training.mask_share=1.0",
            ],
            "`training.mask_share` has no effect",
        ),
        (["training.nsp_weight=-1"], "`training.nsp_weight` must not be negative"),
        (["training.objective=clm"], "`training.objective` must be one of mlm, causal_lm"),
        (["training.worker_timeout=0"], "`training.worker_timeout` must be positive. Received: 0"),
    ],
)
def test_invalid_settings_are_refused(folder, capsys, settings, message):
    assert pretrain(folder, *settings) == 1
    assert message in capsys.readouterr().err
    assert not (folder / "run").exists()


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"word": "v"}, "`vocabulary_sha256` must be that of"),
        ({"lowercase": False}, "`config.lowercase` must be that of"),
    ],
)
def test_lengths_with_different_vocabularies_are_refused(folder, capsys, other, message):
    both = folder / "both"
    both.mkdir()
    write_small_data(both, "length-32")
    write_small_data(both, "length-16", **({"max_seq_length": 16} | other))
    assert pretrain(folder, data="both") == 1
    assert message in capsys.readouterr().err
    assert not (folder / "run").exists()


def test_output_below_a_file_is_refused(folder, capsys):
    (folder / "notes").write_text("mine")
    assert pretrain(folder, output="notes/run") == 1
    assert f"{folder}/notes/run" in capsys.readouterr().err
    assert (folder / "notes").read_text() == "mine"


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A run of four steps."""
    folder = tmp_path_factory.mktemp("trained")
    write_small_data(folder)
    assert pretrain(folder) == 0
    return folder


@pytest.mark.parametrize(
    ("setting", "field"),
    [
        ("training.batch_size=16", "training.batch_size"),
        ("training.seed=9", "training.seed"),
        ("training.precision=bfloat16", "training.precision"),
        ("training.accumulate=2", "training.accumulate"),
        ("model.dropout=0.0", "model.dropout"),
    ],
)
def test_resume_with_other_settings_is_refused(trained, capsys, setting, field):
    assert pretrain(trained, setting) == 1
    assert f"step-00000004: belongs to a run with another `{field}`" in capsys.readouterr().err


@pytest.mark.slow
def test_resume_with_another_number_of_replicas_is_refused(trained):
    """Runs in a separate process, because devices are split before TensorFlow starts."""
    paths = ["--data", trained / "data", "--model", trained / "model.json", "--output", trained / "run", "--steps", "4"]
    settings = ["--set", "training.batch_size=8", "training.strategy=mirrored", "training.num_replicas=2"]
    command = [sys.executable, "-m", "bert_tf", "pretrain", *map(str, paths), *settings]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 1
    assert "belongs to a run with another `training.num_replicas`" in ended.stderr


@pytest.mark.parametrize("fields", [{"mask_share": 0.5}, {"seed": 3}])
def test_resume_with_other_data_is_refused(trained, capsys, fields):
    """Records without masks have the same bytes for any masking."""
    if not (trained / str(fields)).exists():
        write_small_data(trained, str(fields), **fields)
    assert pretrain(trained, data=str(fields)) == 1
    assert "belongs to a run with another `data`" in capsys.readouterr().err


def test_diverging_learning_rate_is_reported(folder, capsys):
    settings = ("training.learning_rate=1e37", "training.warmup_steps=0", "training.checkpoint_every=1")
    assert pretrain(folder, *settings) == 1
    stderr = capsys.readouterr().err.splitlines()[-1]
    assert "step 2: the loss or its gradient is not finite. The last checkpoint is " in stderr
    assert "checkpoints/step-00000001. The step took batch 1, counted from 0. Set `training.on_nan`" in stderr
    assert [path.name for path in (folder / "run/checkpoints").glob(".staging*")] == []


@pytest.mark.slow
def test_full_disk_is_reported(folder, capsys, monkeypatch):
    """The third checkpoint does not fit."""
    real, written = checkpoints._write_synced, []

    def write(path: Path, content: bytes) -> None:
        written.append(path)
        if len(written) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        real(path, content)

    monkeypatch.setattr(checkpoints, "_write_synced", write)
    assert pretrain(folder, "training.checkpoint_every=1") == 1
    assert "the checkpoint of step 3 could not be written: No space left on device" in capsys.readouterr().err
    left = sorted(path.name for path in (folder / "run/checkpoints").iterdir())
    assert left == ["step-00000001", "step-00000002"]
    monkeypatch.undo()
    assert pretrain(folder, "training.checkpoint_every=1") == 0
    assert "resuming after step 2 of 4" in capsys.readouterr().err


def test_run_with_only_damaged_checkpoints_is_refused(folder, capsys):
    """Every restart raises an error that names the next step."""
    assert pretrain(folder, "training.checkpoint_every=2") == 0
    for path in (folder / "run/checkpoints").glob("*/optimizer.npz"):
        os.truncate(path, 1000)
    history = (folder / "run/history.jsonl").read_text()
    for _ in range(2):
        assert pretrain(folder, "training.checkpoint_every=2") == 1
        stderr = capsys.readouterr().err
        assert "every checkpoint is damaged (step-00000002, step-00000004)" in stderr
        assert f"remove {folder}/run/checkpoints" in stderr
    assert (folder / "run/history.jsonl").read_text() == history

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import keras
import numpy as np
import pytest

from bert_tf.config import ConfigError
from bert_tf.training.loop import checkpoints
from bert_tf.training.loop.checkpoints import CheckpointStore, TrainingError, Writing

RUN = {"training": {"seed": 1, "log_every": 10}, "data": {"sha": "ab", "sizes": (1, 2)}}


def make_store(directory: Path, value: float = 0.0, run=RUN, keep: int = 3, shape=(2, 3), keep_every: int = 0):
    variables = [
        keras.Variable(np.full(shape, value, np.float32)),
        keras.Variable(int(value), dtype="int64", trainable=False),
    ]
    return CheckpointStore(directory, {"model": variables}, run, Writing(keep, keep_every)), variables


def save(directory: Path, step: int, **settings) -> Path:
    return make_store(directory, float(step), **settings)[0].save(step, {"loss": step / 2})


def test_restore_returns_the_saved_state(tmp_path):
    save(tmp_path, 7)
    store, variables = make_store(tmp_path)
    assert store.restore() == (7, {"loss": 3.5})
    np.testing.assert_array_equal(variables[0].numpy(), np.full((2, 3), 7.0))
    assert int(variables[1]) == 7


def test_restore_without_checkpoints(tmp_path):
    assert make_store(tmp_path / "missing")[0].restore() == (0, {})


def test_only_the_newest_checkpoints_are_kept(tmp_path):
    for step in (1, 2, 10, 100_000_000, 11):
        save(tmp_path, step, keep=2)
    assert make_store(tmp_path)[0].steps() == [11, 100_000_000]


def test_multiples_of_keep_every_stay_too(tmp_path):
    store, _ = make_store(tmp_path, keep=2, keep_every=4)
    for step in range(0, 12):
        store.save(step, {})
    assert store.steps() == [4, 8, 10, 11]
    # A resumed run with other settings keeps by them from then on.
    make_store(tmp_path)[0].save(12, {})
    assert store.steps() == [10, 11, 12]


def truncate(path):
    os.truncate(path / "model.npz", 100)


def flip_a_bit(path):
    content = bytearray((path / "model.npz").read_bytes())
    content[200] ^= 1
    (path / "model.npz").write_bytes(content)


def delete_state(path):
    (path / "state.json").unlink()


def truncate_state(path):
    os.truncate(path / "state.json", 50)


def clear_state(path):
    (path / "state.json").write_text("[]")


def delete_arrays(path):
    (path / "model.npz").unlink()


def clear_folder(path):
    shutil.rmtree(path)
    path.mkdir()


DAMAGES = [truncate, flip_a_bit, delete_state, truncate_state, clear_state, delete_arrays, clear_folder]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_skipped_with_a_warning(tmp_path, caplog, damage):
    save(tmp_path, 1)
    damage(save(tmp_path, 2))
    store, variables = make_store(tmp_path)
    assert store.restore() == (1, {"loss": 0.5})
    assert float(variables[0].numpy()[0, 0]) == 1.0
    assert "step-00000002 is damaged" in caplog.text
    # It is not counted as one of the newest, and does not block the new checkpoint of the step.
    assert (tmp_path / "step-00000002.damaged").is_dir()
    assert save(tmp_path, 2).is_dir()
    assert make_store(tmp_path)[0].restore()[0] == 2


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("oldest", [0, 1])
def test_run_with_damaged_checkpoints_is_not_restarted(tmp_path, damage, oldest):
    """If all checkpoints, or all but that of step 0, are damaged, the run is refused and the files are unchanged."""
    paths = [save(tmp_path, step) for step in (oldest, 2, 3)]
    for path in paths[1:] if oldest == 0 else paths:
        damage(path)
    for _ in range(2):
        with pytest.raises(TrainingError, match=f"damaged .*step-00000002, step-00000003.* or remove {tmp_path}"):
            make_store(tmp_path)[0].restore()
    assert sorted(tmp_path.iterdir()) == paths


def test_run_is_not_restarted_next_to_a_damaged_checkpoint(tmp_path):
    save(tmp_path, 1)
    truncate(save(tmp_path, 2))
    make_store(tmp_path)[0].restore()
    shutil.rmtree(tmp_path / "step-00000001")
    with pytest.raises(TrainingError, match="step-00000002.damaged"):
        make_store(tmp_path)[0].restore()


def test_older_checkpoint_is_renamed_before_it_is_removed(tmp_path, monkeypatch):
    """A partly removed checkpoint would be reported as damaged."""
    save(tmp_path, 1)
    real = shutil.rmtree

    def killed(path, **settings):
        if path.exists():
            raise KeyboardInterrupt
        real(path, **settings)

    monkeypatch.setattr(shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path, 2, keep=1)
    monkeypatch.undo()
    assert make_store(tmp_path)[0].steps() == [2]
    make_store(tmp_path)[0].restore()
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000002"]


def test_a_half_written_checkpoint_is_removed(tmp_path):
    save(tmp_path, 1)
    shutil.copytree(tmp_path / "step-00000001", tmp_path / ".staging-step-00000002")
    assert make_store(tmp_path)[0].restore()[0] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


@pytest.mark.parametrize(
    ("run", "field"),
    [
        ({**RUN, "training": {"seed": 2, "log_every": 10}}, "training.seed"),
        ({**RUN, "data": {"sha": "cd", "sizes": (1, 2)}}, "data.sha"),
        ({**RUN, "data": {"sha": "ab", "sizes": (1, 3)}}, "data.sizes"),
        ({**RUN, "more": 1}, "more"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path, run, field):
    path = save(tmp_path, 1)
    with pytest.raises(ConfigError, match=f"another `{field}`.*Received"):
        make_store(tmp_path, run=run)[0].restore()
    assert path.is_dir()


def test_logging_intervals_may_change_on_resume(tmp_path):
    save(tmp_path, 1)
    run = {**RUN, "training": {"seed": 1, "log_every": 99, "evaluate_every": 5}}
    assert make_store(tmp_path, run=run)[0].restore()[0] == 1


def test_another_model_is_refused(tmp_path):
    save(tmp_path, 1)
    with pytest.raises(ConfigError, match="variable 0 of model"):
        make_store(tmp_path, shape=(3, 2))[0].restore()


def test_another_format_is_refused(tmp_path):
    state = save(tmp_path, 1) / "state.json"
    state.write_text(state.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(ConfigError, match="`format` must be 1. Received: 2"):
        make_store(tmp_path)[0].restore()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nonfinite_weights_are_not_saved(tmp_path, value):
    save(tmp_path, 1)
    store, variables = make_store(tmp_path)
    variables[0].assign(np.full((2, 3), value))
    with pytest.raises(TrainingError, match="step 2: .* not finite"):
        store.save(2, {})
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


def test_equal_states_are_equal_bytes(tmp_path):
    first, second = (save(tmp_path / name, 3) for name in "ab")
    for name in ("model.npz", "state.json"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_arrays_are_a_plain_npz(tmp_path):
    with np.load(save(tmp_path, 4) / "model.npz") as arrays:
        assert [arrays[name].shape for name in arrays] == [(2, 3), ()]
    assert json.loads((tmp_path / "step-00000004/state.json").read_text())["step"] == 4


def test_a_failing_write_leaves_no_checkpoint(tmp_path, monkeypatch):
    save(tmp_path, 1)

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints, "_write_synced", full)
    with pytest.raises(OSError, match="No space left"):
        save(tmp_path, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


@pytest.fixture
def small_disk(tmp_path):
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", tmp_path], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


def test_a_full_disk_leaves_the_older_checkpoint(small_disk):
    shape = (64, 1024)  # 256 KiB: one fits, two do not
    save(small_disk, 1, shape=shape)
    with pytest.raises(OSError, match="step 2 could not be written: No space left .*step-00000002"):
        save(small_disk, 2, shape=shape)
    assert [path.name for path in small_disk.iterdir()] == ["step-00000001"]
    assert make_store(small_disk, shape=shape)[0].restore()[0] == 1

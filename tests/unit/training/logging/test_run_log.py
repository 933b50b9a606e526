from __future__ import annotations

import subprocess
import sys
import time

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.api_pb2 import STATUS_SUCCESS
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from tensorboard.util.tensor_util import make_ndarray

from bert_tf.training.logging.run_log import RunLog, read_history
from bert_tf.training.logging.tensorboard import EventFile


def curve(directory, tag):
    """Returns the points (step, value) of a curve as TensorBoard reads them."""
    events = EventAccumulator(str(directory)).Reload()
    return [(event.step, event.value) for event in events.Scalars(tag)]


def write(output, start_step, steps, losses, split="train"):
    log = RunLog(output, start_step, 10)
    for step, loss in zip(steps, losses, strict=True):
        log.write(split, step, {"loss": loss, "eta_seconds": 3.0})
    log.close()


def test_metrics_are_written_as_curves(tmp_path):
    before = time.time()
    log = RunLog(tmp_path, 0, 10)
    log.write("train", 1, {"loss": 2.5, "learning_rate": 1e-4, "eta_seconds": 3.0})
    log.write("validation", 1, {"loss": 3.0})
    # The log is not closed, because a point must be readable as soon as it is recorded.
    events = EventAccumulator(str(tmp_path / "tensorboard/train")).Reload()
    assert sorted(events.Tags()["scalars"]) == ["learning_rate", "loss"]
    assert before <= events.Scalars("loss")[0].wall_time <= time.time()
    assert curve(tmp_path / "tensorboard/train", "loss") == [(1, 2.5)]
    assert curve(tmp_path / "tensorboard/validation", "loss") == [(1, 3.0)]
    log.close()


def test_repeated_steps_appear_once(tmp_path):
    write(tmp_path, 0, [2, 4, 6, 8], [8.0, 7.0, 6.0, 5.0])
    write(tmp_path, 4, [6, 8, 10], [3.0, 2.0, 1.0])
    assert curve(tmp_path / "tensorboard/train", "loss") == [(2, 8.0), (4, 7.0), (6, 3.0), (8, 2.0), (10, 1.0)]
    assert [record["loss"] for record in read_history(tmp_path / "history.jsonl")] == [8.0, 7.0, 3.0, 2.0, 1.0]


def test_superseded_points_are_removed_before_new_ones_are_written(tmp_path):
    write(tmp_path, 0, [3, 6], [8.0, 7.0], split="validation")
    RunLog(tmp_path, 5, 10).close()
    assert curve(tmp_path / "tensorboard/validation", "loss") == [(3, 8.0)]


def test_files_of_one_second_are_read_in_order(tmp_path):
    for number in range(12):
        file = EventFile(tmp_path, number)
        file.scalar("loss", float(number), number + 1)
        file.close()
    assert curve(tmp_path, "loss") == [(number + 1, number) for number in range(12)]


def test_text_round_trip(tmp_path):
    file = EventFile(tmp_path, 0)
    file.text("notes", "| a |\n|---|", 7)
    file.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    (event,) = events.Tensors("notes")
    assert (event.step, make_ndarray(event.tensor_proto).item()) == (7, b"| a |\n|---|")
    assert events.SummaryMetadata("notes").plugin_data.plugin_name == "text"


def plugin_content(directory, kind):
    events = EventAccumulator(str(directory)).Reload()
    tag = f"_hparams_/session_{kind}_info"
    assert tag in events.Tags()["tensors"]
    content = events.SummaryMetadata(tag).plugin_data.content
    return getattr(HParamsPluginData.FromString(content), f"session_{kind}_info")


def test_settings_are_written_as_hparams(tmp_path):
    settings = {"training": {"batch_size": 8, "bias_correction": True, "optimizer": "lamb"}, "data": ["a", "b"]}
    before = time.time()
    for start_step in (0, 4):
        log = RunLog(tmp_path, start_step, 10, settings=settings)
        log.close()
    (file,) = (tmp_path / "tensorboard").rglob("events*")
    assert file.parent.name == "validation"
    start = plugin_content(file.parent, "start")
    assert {name: getattr(value, value.WhichOneof("kind")) for name, value in start.hparams.items()} == {
        "training.batch_size": 8.0,
        "training.bias_correction": True,
        "training.optimizer": "lamb",
        "data": "['a', 'b']",
    }
    assert before <= start.start_time_secs <= time.time()


def test_end_of_a_run_is_logged_once(tmp_path):
    log = RunLog(tmp_path, 0, 10, settings={"a": 1})
    assert (
        "_hparams_/session_end_info"
        not in EventAccumulator(str(tmp_path / "tensorboard/validation")).Reload().Tags()["tensors"]
    )
    log.finish()
    log.close()
    end = plugin_content(tmp_path / "tensorboard/validation", "end")
    assert end.status == STATUS_SUCCESS
    assert end.end_time_secs == pytest.approx(time.time(), abs=60)
    files = sorted((tmp_path / "tensorboard/validation").iterdir())
    finished = RunLog(tmp_path, 10, 10, settings={"a": 1})
    finished.finish()
    finished.close()
    assert sorted((tmp_path / "tensorboard/validation").iterdir()) == files


def test_log_that_does_not_write_creates_no_file(tmp_path):
    log = RunLog(tmp_path, 0, 10, writes=False)
    log.write("train", 1, {"loss": 1.0})
    log.close()
    assert list(tmp_path.iterdir()) == []
    assert log.find("train", 1) == {"loss": 1.0}


def test_run_log_does_not_import_tensorflow(tmp_path):
    code = """
import pathlib, sys
sys.modules["tensorflow"] = None
from bert_tf.training.logging.run_log import RunLog
log = RunLog(pathlib.Path(sys.argv[1]), 0, 10)
log.write("train", 1, {"loss": 1.5})
log.close()
"""
    result = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert curve(tmp_path / "tensorboard/train", "loss") == [(1, pytest.approx(1.5))]

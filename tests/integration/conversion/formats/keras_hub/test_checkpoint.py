"""Tests keras-hub presets: reading them like keras-hub, and writing presets that keras-hub opens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bert_tf.cli import main
from bert_tf.conversion import Options
from bert_tf.conversion.checkpoint import Checkpoint
from bert_tf.conversion.formats.keras_hub import checkpoint as keras_hub
from tests.support.conversion.keras_hub_samples import DATA, VOCABULARY, golden


def assert_bit_equal(one: Checkpoint, other: Checkpoint) -> None:
    assert set(one.tensors) == set(other.tensors)
    for name in one.tensors:
        assert one.array(name).tobytes() == other.array(name).tobytes(), name


@pytest.mark.slow
def test_command_converts_in_both_directions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = DATA / "keras_hub_masked_lm"
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    assert main(["convert", "--source", "keras_hub", str(source), "--target", "preset", str(ours)]) == 0
    assert main(["convert", "--source", "preset", str(ours), "--target", "keras_hub", str(theirs)]) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert summary["computed_by"][1].startswith("keras-hub ")
    assert summary["max_abs_difference"] < 1e-5 and summary["heads"] == ["masked_lm"]
    assert_bit_equal(golden("masked_lm"), keras_hub.read(theirs, Options()))
    assert (theirs / VOCABULARY).read_bytes() == (source / VOCABULARY).read_bytes()

"""Official metrics of an exported graph."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.cli import main
from bert_tf.commands.export_evaluation import ExportEvaluation
from bert_tf.export.inference import IdsModel
from bert_tf.export.metadata import MODEL_CARD
from bert_tf.models.presets import TASK_NAME
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.predictor import TaskPredictor
from tests.support.export.presets import LABELS, MAX_LENGTH, VOCABULARY, WORDS

Exported = Callable[[str], Path]


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    rows = [f"{random.choice(LABELS)}\t{' '.join(random.choice(WORDS, 6))}" for _ in range(20)]
    path = tmp_path / "dev.tsv"
    path.write_text("\n".join(["label\ttext", *rows, ""]), encoding="utf-8")
    return path


@pytest.fixture
def preset(presets: dict[str, Path], tmp_path: Path) -> Path:
    """The classifier, with the length that fine-tuning writes into task.json."""
    folder = Path(shutil.copytree(presets["classifier"], tmp_path / "preset"))
    task = json.loads((folder / TASK_NAME).read_text(encoding="utf-8")) | {"max_sequence_length": MAX_LENGTH}
    (folder / TASK_NAME).write_text(json.dumps(task), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("kind", "shape"),
    [("classifier", (3, 9))]
    + [pytest.param(kind, (3, 9), marks=pytest.mark.slow) for kind in ("regression", "spans", "entities")]
    + [pytest.param("choices", (3, 4, 9), marks=pytest.mark.slow)],
)
def test_ids_signature_equals_the_model(
    kind: str, shape: tuple[int, ...], presets: dict[str, Path], exported: Exported
) -> None:
    ids = np.random.default_rng(0).integers(0, len(VOCABULARY), shape).astype(np.int32)
    inputs = {"token_ids": ids, "segment_ids": ids % 2, "padding_mask": np.ones_like(ids)}
    expected, found = TaskPredictor(presets[kind]).model(inputs), IdsModel(exported(kind))(inputs)
    assert isinstance(found, dict) == isinstance(expected, dict)
    tf.nest.map_structure(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), expected, found)


def test_metrics_of_the_export_equal_those_of_the_preset(preset: Path, exported: Exported, dev: Path) -> None:
    evaluation = ExportEvaluation(preset, dev, MAX_LENGTH)(exported("classifier"))
    answerer = TaskPredictor(preset)
    examples = list(answerer.task.read(dev, InputErrors()))
    assert evaluation["preset"]["metrics"] == answerer.task.score(examples, answerer.predict_examples(examples))
    assert evaluation["exported"]["metrics"] == evaluation["preset"]["metrics"]
    assert evaluation["metric"] in evaluation["preset"]["metrics"]
    assert (evaluation["data"], evaluation["examples"]) == (str(dev), 20)
    assert all(evaluation[name]["milliseconds_per_row"] > 0 for name in ("preset", "exported"))


def test_impossible_evaluation_is_refused_before_the_export(
    preset: Path, presets: dict[str, Path], dev: Path, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=f"must be at least the task's {MAX_LENGTH} .*Received: 16"):
        ExportEvaluation(preset, dev, 16)
    empty = tmp_path / "dev.json"
    empty.write_text(json.dumps({"version": "v2.0", "data": []}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"dev\.json: .*example"):
        ExportEvaluation(presets["spans"], empty)


@pytest.mark.slow
def test_command_prints_the_metrics_of_the_model_card(
    preset: Path, tmp_path: Path, dev: Path, quick_verification: None, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--preset", str(preset), "--output", str(tmp_path / "m"), "--precision", "int8"]
    assert main(["export", *arguments, "--evaluate", str(dev)]) == 0
    captured = capsys.readouterr()
    summary = json.loads(captured.out.splitlines()[-1])
    stages = re.findall(r"^\[ *\d+ s\] (\d of 4|evaluate|exported)", captured.err, re.MULTILINE)
    assert stages == ["1 of 4", "2 of 4", "3 of 4", "4 of 4", "evaluate", "exported"]
    card = json.loads((tmp_path / "m" / "1" / MODEL_CARD).read_text(encoding="utf-8"))
    assert summary["precision"] == card["precision"] == "int8"
    assert summary["evaluation"] == card["evaluation"]
    assert set(card["evaluation"]["exported"]["metrics"]) == set(card["evaluation"]["preset"]["metrics"])

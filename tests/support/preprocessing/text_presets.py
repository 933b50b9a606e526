"""A tiny pre-trained preset with a vocabulary of words, and texts that its models learn in a few steps."""

from __future__ import annotations

from pathlib import Path

import keras

from bert_tf.config import BertConfig
from bert_tf.models import BertBackbone, BertPretrainer
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

WORDS = ("good", "bad", "film", "story", "great", "dull", "the", "a", "is", "was", "fine", "##s", ".")
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *WORDS))
CONFIG = BertConfig(
    vocabulary_size=len(VOCABULARY),
    hidden_dim=32,
    num_layers=2,
    num_heads=2,
    intermediate_dim=64,
    max_sequence_length=32,
    dropout=0.0,
    # Weights of the usual size learn nothing in some steps.
    initializer_range=0.1,
)
TEXTS = ["good film", "bad film", "great story .", "a dull story was the film"] * 8
LABELS = ["pos", "neg", "pos", "neg"] * 8
NUMBERS = [1, 0, 1, 0] * 8


def write_preset(directory: Path) -> Path:
    """Writes the preset of a pre-trained model with random weights, the same in each call."""
    keras.utils.set_random_seed(3)
    BertPretrainer(BertBackbone(CONFIG)).save_to_preset(directory, VOCABULARY)
    return directory

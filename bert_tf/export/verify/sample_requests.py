"""Sample requests to all signatures of a preset, for comparisons and for server warm-up.

Shape legend: B batch, S sequence, N choices.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from bert_tf.data.schema import MASK_POSITIONS, PADDING_MASK, TOKEN_IDS
from bert_tf.export.kinds.base import EXAMPLES, SHORTEST_SEQUENCE, Signatures
from bert_tf.export.kinds.choices import CHOICES
from bert_tf.export.kinds.encoder import LAYERS
from bert_tf.export.metadata import CLASSIFY_INPUTS
from bert_tf.export.verify.comparison import Tensors
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

# N for presets that take any number of choices.
_COLUMNS = 3


def comparison_samples(signatures: Signatures) -> Tensors:
    """Returns one batch of inputs by name: texts with zero to two masks, an empty one, and one that is too long."""
    drawn = _words(signatures.vocabulary, signatures.max_sequence_length + 8)
    texts = [
        " ".join(drawn[:5]),
        " ".join([*drawn[5:7], "[MASK]", drawn[7]]),
        " ".join(["[MASK]", drawn[8], "[MASK]."]),
        "",
        " ".join(drawn),
    ]
    return _samples(signatures, texts, texts)


def warmup_sample(signatures: Signatures) -> Tensors:
    """Returns one row of inputs of all signatures, by name, with as few tokens as possible.

    The first request is slow because of the graph, whatever the length. After this row, the first request of 128 tokens
    takes little longer than the next (`benchmarks.cold_start`).
    """
    length = SHORTEST_SEQUENCE
    words = _words(signatures.vocabulary, length)
    if signatures.top_k is not None:
        words[1] = "[MASK]"
    # [CLS], and a [SEP] after each text.
    text, whole = (
        " ".join(words[: max(1, (length - 1 - texts) // texts)]) for texts in (len(signatures.text_inputs), 1)
    )
    return _samples(signatures, [text], [whole])


def _samples(signatures: Signatures, texts: list[str], texts_of_ids: list[str]) -> Tensors:
    column = np.array([text.encode() for text in texts], dtype=object)
    choices = int((signatures.preset.task or {}).get(CHOICES) or _COLUMNS)
    samples: Tensors = {}
    for number, spec in enumerate(signatures.text_inputs):
        # Each input has the texts in a different order.
        turned = np.roll(column, -number)
        columns = np.stack([np.roll(turned, shift) for shift in range(choices)], axis=1)
        samples[str(spec.name)] = turned if spec.shape.rank == 1 else columns
    samples[EXAMPLES] = samples[CLASSIFY_INPUTS] = _examples(samples)
    encoded = signatures.encode(tf.constant(texts_of_ids), keep_mask_token=True)
    samples |= {name: tensor.numpy() for name, tensor in encoded.items()}
    batch = len(samples[TOKEN_IDS])
    # The first and the last token of the text; outputs at padding have no meaning.
    last = samples[PADDING_MASK].sum(axis=1, dtype=np.int32) - 1
    samples[MASK_POSITIONS] = np.stack([np.ones(batch, np.int32), last], axis=1)
    # Each layer once, the last one as -1.
    samples[LAYERS] = np.tile(np.arange(-1, signatures.preset.config.num_layers, dtype=np.int32), (batch, 1))
    return samples


def _examples(columns: Tensors) -> np.ndarray:
    """Returns the rows of text columns as serialized tf.Examples."""
    rows = []
    for values in zip(*columns.values(), strict=True):
        lists = (tf.train.BytesList(value=np.atleast_1d(np.array(value, dtype=object))) for value in values)
        features = {name: tf.train.Feature(bytes_list=of) for name, of in zip(columns, lists, strict=True)}
        rows.append(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    return np.array(rows, dtype=object)


def _words(vocabulary: Vocabulary, count: int) -> list[str]:
    """Returns random words of the vocabulary, with a fixed seed."""
    words = [t for t in vocabulary.tokens if t not in SPECIAL_TOKENS and not t.startswith("##")] or ["[UNK]"]
    return [str(word) for word in np.random.default_rng(0).choice(words, size=count)]

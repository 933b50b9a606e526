"""What the live model answers to a few samples, for the exported one to be held against."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from bert_tf.data.schema import MASK_POSITIONS
from bert_tf.export.kinds.base import CLASSIFY_INPUTS, EXAMPLES, Signatures
from bert_tf.export.kinds.encoder import LAYERS
from bert_tf.export.verify import Tensors
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

_COLUMNS = 3


def record(signatures: Signatures) -> list[tuple[str, Tensors, Tensors]]:
    """Runs every signature on a batch of samples and on an empty batch.

    Returns:
        Name of the signature, inputs and outputs by name; strings as objects of bytes.
    """
    samples = _samples(signatures)
    empty = {name: value[:0] for name, value in samples.items()}
    cases = []
    for name, endpoint in signatures.endpoints.items():
        # As it is exported: operation by operation, sums may come out otherwise in the last digit.
        function = tf.function(endpoint.function, input_signature=endpoint.inputs)
        for batch in (samples, empty):
            inputs = {str(spec.name): batch[str(spec.name)] for spec in endpoint.inputs}
            tensors = [tf.constant(inputs[str(spec.name)], spec.dtype) for spec in endpoint.inputs]
            outputs = {key: value.numpy() for key, value in function(*tensors).items()}
            cases.append((name, inputs, outputs))
    return cases


def _samples(signatures: Signatures) -> Tensors:
    """Returns every input any signature may have, for one batch."""
    texts = _texts(signatures.vocabulary, signatures.max_sequence_length)
    samples: Tensors = {}
    for number, spec in enumerate(signatures.text_inputs):
        # Each input has the texts in another order.
        column = np.array(texts[number:] + texts[:number], dtype=object)
        columns = np.stack([np.roll(column, shift) for shift in range(_COLUMNS)], axis=1)
        samples[str(spec.name)] = column if spec.shape.rank == 1 else columns
    samples[EXAMPLES] = samples[CLASSIFY_INPUTS] = _examples(samples)
    encoded = signatures.encode(tf.constant(texts), keep_mask_token=True)
    samples |= {name: tensor.numpy() for name, tensor in encoded.items()}
    batch, length = samples["token_ids"].shape
    samples[MASK_POSITIONS] = np.tile(np.array([1, length - 1], np.int32), (batch, 1))
    # Each of them once, the last one from the end.
    samples[LAYERS] = np.tile(np.arange(-1, signatures.preset.config.num_layers, dtype=np.int32), (batch, 1))
    return samples


def _examples(columns: Tensors) -> np.ndarray:
    """Returns each row of some texts as a serialized tf.Example."""
    rows = []
    for values in zip(*columns.values(), strict=True):
        lists = (tf.train.BytesList(value=np.atleast_1d(np.array(value, dtype=object))) for value in values)
        features = {name: tf.train.Feature(bytes_list=of) for name, of in zip(columns, lists, strict=True)}
        rows.append(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    return np.array(rows, dtype=object)


def _texts(vocabulary: Vocabulary, max_sequence_length: int) -> list[bytes]:
    """Returns texts with no, one and two masks, an empty one and one that is too long."""
    words = [t for t in vocabulary.tokens if t not in SPECIAL_TOKENS and not t.startswith("##")] or ["[UNK]"]
    drawn = list(np.random.default_rng(0).choice(words, size=max_sequence_length + 8))
    texts = [
        " ".join(drawn[:5]),
        " ".join([*drawn[5:7], "[MASK]", drawn[7]]),
        " ".join(["[MASK]", drawn[8], "[MASK]."]),
        "",
        " ".join(drawn),
    ]
    return [text.encode() for text in texts]

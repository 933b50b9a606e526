"""What the live model answers to a few samples, for the exported one to be held against."""

from __future__ import annotations

import tensorflow as tf

from bert_tf.export.kinds.base import Signatures
from bert_tf.export.samples import comparison_samples
from bert_tf.export.verify import Tensors


def record(signatures: Signatures) -> list[tuple[str, Tensors, Tensors]]:
    """Runs every signature on a batch of samples and on an empty batch.

    Returns:
        Name of the signature, inputs and outputs by name; strings as objects of bytes.
    """
    samples = comparison_samples(signatures)
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

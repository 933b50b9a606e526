"""TensorFlow as commands need it, without the notices of its start."""

from __future__ import annotations

from bert_tf.entry import quiet
from bert_tf.export.runtime import prefer_onednn, without_keras


def import_tensorflow(*, keras: bool = True) -> None:
    """Imports TensorFlow where it is installed, see `entry.quiet`.

    Args:
        keras: whether it imports Keras, too; where not, it is to serve, and prefers oneDNN.
    """
    if keras:
        quiet.import_tensorflow()
    else:
        prefer_onednn()
        quiet.import_tensorflow(without_keras())

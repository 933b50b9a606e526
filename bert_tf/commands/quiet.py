"""Import of TensorFlow without its start-up messages."""

from __future__ import annotations

from bert_tf.entry import quiet
from bert_tf.export.runtime import prefer_onednn, without_keras


def import_tensorflow(*, keras: bool = True) -> None:
    """Imports TensorFlow if it is installed, see `entry.quiet`.

    Args:
        keras: True to import Keras too; False for serving, which prefers oneDNN.
    """
    if keras:
        quiet.import_tensorflow()
    else:
        prefer_onednn()
        quiet.import_tensorflow(without_keras())

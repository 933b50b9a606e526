"""TensorFlow without the notices that it prints while it is imported."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import tempfile

from bert_tf.export.runtime import prefer_onednn, without_keras


def import_tensorflow(*, keras: bool = True) -> None:
    """Imports TensorFlow where it is installed; what it writes to stderr meanwhile is kept unless the import fails.

    TensorFlow 2.21 tells of CPU features and missing GPU drivers before any log level is read, and would drown
    the progress lines. Where Keras has another backend, which needs the GPUs' memory, TensorFlow is shown none of them.

    Args:
        keras: whether it imports Keras, too; where not, it is to serve, and prefers oneDNN.
    """
    if "tensorflow" in sys.modules or importlib.util.find_spec("tensorflow") is None:
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if not keras:
        prefer_onednn()
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as notices, contextlib.nullcontext() if keras else without_keras():
        os.dup2(notices.fileno(), 2)
        try:
            import tensorflow as tf

            if os.environ.get("KERAS_BACKEND", "tensorflow") != "tensorflow":
                tf.config.set_visible_devices([], "GPU")
        except BaseException:
            notices.seek(0)
            os.write(kept, notices.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)

"""TensorFlow without the notices that it prints while it is imported."""

from __future__ import annotations

import os
import sys
import tempfile


def import_tensorflow() -> None:
    """Imports TensorFlow, keeping what it writes to stderr meanwhile to itself, unless the import fails.

    TensorFlow 2.21 tells of CPU features and missing GPU drivers before any log level is read, and would drown
    the progress lines.
    """
    if "tensorflow" in sys.modules:
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as notices:
        os.dup2(notices.fileno(), 2)
        try:
            import tensorflow  # noqa: F401
        except BaseException:
            notices.seek(0)
            os.write(kept, notices.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)

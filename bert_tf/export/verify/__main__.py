"""`python -m bert_tf.export.verify` runs `check.main`."""

from bert_tf.entry.quiet import import_tensorflow

# Before any module that imports TensorFlow.
import_tensorflow()

import sys  # noqa: E402

from bert_tf.entry.errors import run_program  # noqa: E402
from bert_tf.export.verify.check import main  # noqa: E402

sys.exit(run_program(lambda: main(sys.argv[1:])))

"""`python -m bert_tf.export.verify` runs `check`."""

import sys

from bert_tf.entry.errors import run_program
from bert_tf.export.verify.check import main

sys.exit(run_program(lambda: main(sys.argv[1:])))

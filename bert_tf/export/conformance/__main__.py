"""`python -m bert_tf.export.conformance` runs `suite`."""

import sys

from bert_tf.entry.errors import run_program
from bert_tf.export.conformance.suite import main

sys.exit(run_program(main))

"""Runs the `bert-tf` command line as `python -m bert_tf`."""

import sys

from bert_tf.cli import main

sys.exit(main())

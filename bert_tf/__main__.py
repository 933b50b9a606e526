"""`python -m bert_tf` is `bert-tf`."""

import sys

from bert_tf.cli import main

sys.exit(main())

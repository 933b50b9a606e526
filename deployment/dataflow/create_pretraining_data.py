"""Entry point of the flex template that builds pre-training data."""

from __future__ import annotations

import sys

from beam_pipelines import create_pretraining_data

if __name__ == "__main__":
    sys.exit(create_pretraining_data.main())

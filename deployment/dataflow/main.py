"""Entry point of the Dataflow flex template."""

from __future__ import annotations

import sys

from beam_pipelines import create_pretraining_data

if __name__ == "__main__":
    sys.exit(create_pretraining_data.main())

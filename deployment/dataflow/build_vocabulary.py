"""Entry point of the flex template that builds a vocabulary."""

from __future__ import annotations

import sys

from beam_pipelines import build_vocabulary

if __name__ == "__main__":
    sys.exit(build_vocabulary.main())

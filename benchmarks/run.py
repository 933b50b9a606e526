"""`python -m benchmarks.run [--output DIR]`: benchmarks without input data; tables on stdout, JSON in DIR.

`benchmarks.data` holds the benchmarks of the data pipelines, which need a corpus.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path


def main() -> None:
    """Runs every benchmark that needs no data."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--output", type=Path, default=Path("runs/benchmarks"), help="output directory of the JSON")
    args = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["RAYON_NUM_THREADS"] = "1"
    from benchmarks import tokenizer

    tokenizer.run(args.output)


if __name__ == "__main__":
    main()

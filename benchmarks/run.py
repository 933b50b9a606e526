"""`python -m benchmarks.run [--output DIR]`: benchmarks without input data; tables on stdout, JSON in DIR.

`benchmarks.data` holds the benchmarks of the data pipelines, which need a corpus.
"""

from __future__ import annotations

import os

from benchmarks import measure


def main() -> None:
    """Runs every benchmark that needs no data."""
    args = measure.parser(__doc__).parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["RAYON_NUM_THREADS"] = "1"
    from benchmarks import tokenizer

    tokenizer.run(args.output)


if __name__ == "__main__":
    main()

"""Apache Beam pipelines: raw corpora to vocabularies and pre-training examples."""

import logging
import sys
from types import TracebackType

from bert_tf.entry.packages import missing_package


def _report_missing(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Prints a missing package of the extra `data` as a one-line error, and any other error with its traceback."""
    message = missing_package(error, "data", "data")
    if message is None:
        sys.__excepthook__(kind, error, trace)
    else:
        print(f"error: {message}", file=sys.stderr)


# While `python -m` looks for a module of this package, the program has this name.
if sys.argv[:1] == ["-m"]:
    sys.excepthook = _report_missing

# On import, Beam warns about optional cloud libraries that are not installed.
logging.disable(logging.WARNING)
try:
    import apache_beam  # noqa: F401
finally:
    logging.disable(logging.NOTSET)

"""Apache Beam pipelines: raw corpora to vocabularies and pre-training examples."""

import logging

# On import, Beam warns about optional cloud libraries that are not installed.
logging.disable(logging.WARNING)
try:
    import apache_beam  # noqa: F401
finally:
    logging.disable(logging.NOTSET)

"""Apache Beam pipelines: raw corpora to vocabularies and pre-training examples."""

import logging

# While it is imported, Beam warns of cloud libraries that are not installed and not asked for.
logging.disable(logging.WARNING)
try:
    import apache_beam  # noqa: F401
finally:
    logging.disable(logging.NOTSET)

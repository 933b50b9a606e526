"""The report of a training run."""

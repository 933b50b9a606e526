"""Report on a training run."""

"""Tasks: examples, encoded rows, predictions and metrics."""

"""Reads and writes checkpoints of the TensorFlow Model Garden."""

"""Shared code of all programs: a quiet TensorFlow import and one-line error messages."""

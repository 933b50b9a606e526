"""Shared code of all programs: a quiet TensorFlow import, one-line error messages, and progress lines."""

"""Estimates duration and size of a pipeline from a sample of its input."""

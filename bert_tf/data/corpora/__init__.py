"""Corpora that are available without a download."""

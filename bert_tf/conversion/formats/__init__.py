"""Checkpoint formats: one module or package each, found through `registry`."""

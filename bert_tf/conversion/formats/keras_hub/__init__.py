"""Presets of keras-hub."""

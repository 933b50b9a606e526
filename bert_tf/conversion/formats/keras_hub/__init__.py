"""Reads and writes keras-hub presets."""

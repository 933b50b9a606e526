"""Compares an exported SavedModel with its source model."""

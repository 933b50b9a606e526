"""Compares an exported SavedModel with the model that it was exported from."""

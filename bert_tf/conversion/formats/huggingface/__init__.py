"""Reads and writes checkpoints of Hugging Face transformers."""

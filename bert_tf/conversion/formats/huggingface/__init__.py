"""Checkpoints of Hugging Face transformers."""

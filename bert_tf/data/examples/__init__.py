"""Builds pre-training examples from documents."""

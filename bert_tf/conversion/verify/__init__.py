"""Compares the outputs of a converted checkpoint with those of its original program."""

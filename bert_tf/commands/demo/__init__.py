"""Subcommand `bert-tf demo`."""

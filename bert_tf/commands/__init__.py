"""Subcommands of `bert-tf`."""

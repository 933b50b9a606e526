"""Subcommands that execute other subcommands: `bert-tf glue` and `bert-tf reproduce`."""

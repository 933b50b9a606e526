"""The command `bert-tf demo`."""

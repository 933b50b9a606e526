"""The commands behind `bert-tf`."""

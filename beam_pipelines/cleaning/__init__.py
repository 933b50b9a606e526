"""Computations of the cleaning transforms: plain functions over batches of documents."""

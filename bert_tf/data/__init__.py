"""Records, pairs, masks and the input pipeline."""

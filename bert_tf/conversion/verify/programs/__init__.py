"""Programs that open a checkpoint with the library of its format; each runs in an environment of its own."""

"""Turns texts into rows of tokens, once for files, Keras and exported graphs."""

"""Compares the responses of a server with those of TensorFlow Serving."""

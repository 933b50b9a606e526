"""Requests of both interfaces: tensors, examples, limits, and cancellation."""

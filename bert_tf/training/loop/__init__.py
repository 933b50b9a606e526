"""Callbacks of `model.fit`: checkpoints, preemption, NaN recovery and profiling."""

"""Contenders that run steps on command, each in a process of its own; see `benchmarks.interleave`."""

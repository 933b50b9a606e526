"""Programs that take training steps when told to, each in a process of its own; see `benchmarks.interleave`."""

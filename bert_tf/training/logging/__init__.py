"""Run logs, TensorBoard event files and floating-point throughput."""

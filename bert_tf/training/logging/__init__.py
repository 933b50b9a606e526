"""Run logs, TensorBoard event files and throughput figures."""

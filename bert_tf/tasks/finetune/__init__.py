"""Fine-tuning runs: initialization, training, sweeps and their results."""

"""Fine-tuning runs: initialisation, training, sweeps and their results."""

"""Training loop: backends, distribution, optimizers, checkpoints, evaluation and logs."""

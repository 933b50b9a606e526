"""Pre-training runs: recipes, warm start and phases."""

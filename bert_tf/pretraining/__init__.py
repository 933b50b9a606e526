"""Pre-training: recipes, warm start and phases."""

"""What a model is trained and used for."""

"""Optimizers, learning rate schedules and gradient handling."""

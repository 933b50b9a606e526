"""The one path to model.fit."""

"""What the SavedModels of each kind of preset answer."""

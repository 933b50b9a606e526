"""SavedModel signatures of each kind of preset."""

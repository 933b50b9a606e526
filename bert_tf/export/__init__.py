"""SavedModels and the local server."""

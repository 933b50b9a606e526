"""The served models: their configuration, loaded versions, and batching."""

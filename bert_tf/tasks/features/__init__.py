"""The feature-based approach: cached encoder outputs, probes and embeddings."""

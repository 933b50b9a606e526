"""Transforms from documents to shards."""

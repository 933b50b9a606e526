"""The steps between a document and a shard."""

"""Pre-training data: records, sentence pairs, masks and input pipelines."""

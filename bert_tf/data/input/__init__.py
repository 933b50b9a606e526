"""Input pipelines: record order, batches, packing and padding."""

"""Input pipelines: order, batches, packing and padding."""

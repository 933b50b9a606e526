"""What the cleaning transforms compute: plain functions over batches of documents."""

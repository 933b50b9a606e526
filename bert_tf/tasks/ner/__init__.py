"""Named entity recognition."""

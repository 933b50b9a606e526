"""Text to word pieces, exactly as the original BERT does it."""

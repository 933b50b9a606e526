"""WordPiece tokenization, identical to the original BERT."""

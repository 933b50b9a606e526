"""Word counts and WordPiece training."""

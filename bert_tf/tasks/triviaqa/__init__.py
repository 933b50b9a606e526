"""TriviaQA (arXiv 1705.03551): conversion to SQuAD's format, and the official metrics."""

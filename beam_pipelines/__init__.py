"""Apache Beam pipelines: raw corpora to vocabularies and pre-training examples."""

"""Benchmarks of bert_tf and its peers, measured in the same run."""

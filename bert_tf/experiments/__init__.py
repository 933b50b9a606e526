"""Experiments: resumable runs that several processes share, statistics of their results, and the tasks of GLUE."""

"""Reports of task predictions, sweeps and attention."""

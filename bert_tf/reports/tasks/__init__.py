"""Reports on task predictions, sweeps and attention."""

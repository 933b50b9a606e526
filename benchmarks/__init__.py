"""Speed, measured beside its peers in the same run."""

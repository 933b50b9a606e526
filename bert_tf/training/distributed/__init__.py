"""Distribution strategies, worker clusters and TPUs."""

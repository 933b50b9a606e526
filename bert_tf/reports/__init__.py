"""HTML reports on data, training runs and tasks."""

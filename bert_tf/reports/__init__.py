"""HTML reports of data, training runs and tasks."""

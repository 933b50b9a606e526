"""Output directories: storage, layout, reports and locks."""

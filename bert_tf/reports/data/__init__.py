"""The report of a data directory."""

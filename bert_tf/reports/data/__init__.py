"""Report on a data directory."""

"""Beam runners: selection, job servers and worker processes."""

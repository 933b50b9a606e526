"""The nine tasks of GLUE with one preset: runs, table, comparison of two presets, and submission."""

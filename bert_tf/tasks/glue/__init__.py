"""Tasks of the GLUE benchmark."""

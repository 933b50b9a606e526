"""The HTTP interface: TF Serving's REST methods, metrics, health checks, and a web page."""

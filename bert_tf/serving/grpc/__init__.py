"""The gRPC interface: TF Serving's services and the standard health check."""

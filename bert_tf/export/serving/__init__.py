"""The embedded server: models and their versions, batches of requests, REST and gRPC as TF Serving speaks them."""

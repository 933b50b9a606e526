"""SavedModel export, verification and inference."""

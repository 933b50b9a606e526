"""What all programs of the package share: a quiet start of TensorFlow, and errors of one line."""

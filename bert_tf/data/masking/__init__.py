"""Token and whole-word masking, in numpy and in TensorFlow."""

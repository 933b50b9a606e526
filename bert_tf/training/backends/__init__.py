"""Train steps for the TensorFlow and JAX backends of Keras."""

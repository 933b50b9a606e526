"""TFRecord shards of `tf.train.Example` records."""

"""Layers of BERT, pure `keras.ops`: they import and run without TensorFlow (`KERAS_BACKEND=jax`).

No layer here makes or reads Keras' implicit masks: what is padding is said by the input `padding_mask` alone.
"""

from bert_tf.layers.attention_mask import AttentionMask
from bert_tf.layers.embeddings import BertEmbeddings
from bert_tf.layers.pretraining_heads import MaskedLMHead, NextSentenceHead

__all__ = ["AttentionMask", "BertEmbeddings", "MaskedLMHead", "NextSentenceHead"]

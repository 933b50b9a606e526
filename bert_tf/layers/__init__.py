"""BERT layers in pure `keras.ops`; they also run without TensorFlow (`KERAS_BACKEND=jax`).

The layers neither create nor read Keras' implicit masks. Padding is marked only by the input `padding_mask`.
"""

from bert_tf.layers.attention import SelfAttention
from bert_tf.layers.bilstm import BiLSTM
from bert_tf.layers.embeddings import BertEmbeddings
from bert_tf.layers.normalization import LayerNormalization
from bert_tf.layers.pooling import TokenPooling
from bert_tf.layers.positions import RowsAt
from bert_tf.layers.pretraining_heads import MaskedLMHead, NextSentenceHead
from bert_tf.layers.transformer import TransformerLayer
from bert_tf.layers.weighted_sum import WeightedSum

__all__ = [
    "BertEmbeddings",
    "BiLSTM",
    "LayerNormalization",
    "MaskedLMHead",
    "NextSentenceHead",
    "RowsAt",
    "SelfAttention",
    "TokenPooling",
    "TransformerLayer",
    "WeightedSum",
]

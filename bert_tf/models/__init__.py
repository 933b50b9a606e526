"""Functional Keras models of BERT, pure `keras.ops`, and the presets they are kept in."""

from bert_tf.models.backbone import BertBackbone
from bert_tf.models.presets import Preset, load_backbone, load_preset, save_preset
from bert_tf.models.pretrainer import BertPretrainer
from bert_tf.models.text_classifier import BertTextClassifier

__all__ = [
    "BertBackbone",
    "BertPretrainer",
    "BertTextClassifier",
    "Preset",
    "load_backbone",
    "load_preset",
    "save_preset",
]

"""Functional Keras models of BERT in pure `keras.ops`, and presets to save and load them."""

from bert_tf.models.averaging import average_presets
from bert_tf.models.backbone import BertBackbone
from bert_tf.models.bilstm_encoder import BertBiLSTMEncoder
from bert_tf.models.bilstm_tagger import BiLSTMTagger
from bert_tf.models.feature_models import BertFeatureTagger, BertProbe
from bert_tf.models.kinds import MODEL_KINDS
from bert_tf.models.masked_lm import BertMaskedLM
from bert_tf.models.multiple_choice import BertMultipleChoice
from bert_tf.models.presets import Preset, load_backbone, load_preset, save_preset
from bert_tf.models.pretrainer import BertPretrainer
from bert_tf.models.span_predictor import BertSpanPredictor
from bert_tf.models.text_classifier import BertTextClassifier
from bert_tf.models.token_classifier import BertTokenClassifier

__all__ = [
    "MODEL_KINDS",
    "BertBackbone",
    "BertBiLSTMEncoder",
    "BertFeatureTagger",
    "BertMaskedLM",
    "BertMultipleChoice",
    "BertPretrainer",
    "BertProbe",
    "BertSpanPredictor",
    "BertTextClassifier",
    "BertTokenClassifier",
    "BiLSTMTagger",
    "Preset",
    "average_presets",
    "load_backbone",
    "load_preset",
    "save_preset",
]

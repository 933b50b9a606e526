"""Checkpoints of every BERT there is, in and out, each conversion proving itself."""

from bert_tf.conversion.convert import Conversion, convert
from bert_tf.conversion.formats.registry import FORMS, read_checkpoint
from bert_tf.conversion.options import Options
from bert_tf.conversion.tensors import ConversionError

__all__ = ["FORMS", "Conversion", "ConversionError", "Options", "convert", "read_checkpoint"]

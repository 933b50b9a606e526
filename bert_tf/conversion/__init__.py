"""Reads and writes BERT checkpoints in several formats, and verifies each conversion."""

from bert_tf.conversion.checkpoint import Options
from bert_tf.conversion.convert import Conversion, convert
from bert_tf.conversion.formats.registry import FORMS, read_checkpoint
from bert_tf.conversion.tensors import ConversionError

__all__ = ["FORMS", "Conversion", "ConversionError", "Options", "convert", "read_checkpoint"]

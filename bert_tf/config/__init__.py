"""Run configuration as frozen dataclasses, stored as JSON and overridden with `--set a.b=c`."""

from bert_tf.config.base import from_dict, load_json, save_json, to_dict, with_overrides
from bert_tf.config.cleaning import CleaningConfig
from bert_tf.config.data import DataConfig
from bert_tf.config.errors import ConfigError
from bert_tf.config.model import BertConfig
from bert_tf.config.paths import existing, local_path
from bert_tf.config.training import RunConfig, TrainingConfig

__all__ = [
    "BertConfig",
    "CleaningConfig",
    "ConfigError",
    "DataConfig",
    "RunConfig",
    "TrainingConfig",
    "existing",
    "from_dict",
    "load_json",
    "local_path",
    "save_json",
    "to_dict",
    "with_overrides",
]

"""Configuration of runs that train on features of a frozen encoder (arXiv 1810.04805, section 5.3)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import keras

from bert_tf.config import BertConfig, ConfigError, local_path
from bert_tf.config.features import Combination, combination
from bert_tf.data.schema import SINGLE_OUTPUT
from bert_tf.encoding.rows import EncodedRows
from bert_tf.models import BertBackbone, BertFeatureTagger, BertProbe
from bert_tf.models.bilstm_tagger import BILSTM_DIM
from bert_tf.tasks.base import Task
from bert_tf.tasks.features.rows import pooled_extraction, token_extraction, with_features

# Default directory of features in a run's output directory.
FEATURES_NAME = "features"
# The smallest possible encoder.
_POINT = BertConfig(1, 1, 1, 1, 1, 1)


@dataclass(frozen=True)
class Features:
    """Configuration of training on features of a `combination` from `config.features.COMBINATIONS`, or of one layer.

    `pooling` of None is for a BiLSTM tagger of tokens, each direction `bilstm_dim` wide; one of the poolings of
    `models.feature_models` is for a linear classifier of whole texts. `folder` is a directory of features,
    shared by any number of runs; None uses the run's output directory.
    """

    combination: str
    pooling: str | None = None
    bilstm_dim: int = BILSTM_DIM
    folder: str | Path | None = None

    def chosen(self, config: BertConfig) -> Combination:
        """Returns the selected layers. Raises ConfigError if the encoder does not have them."""
        return combination(self.combination, config.num_layers)

    def check(self, task: Task) -> None:
        """Raises ConfigError if the task does not support this kind of training."""
        if set(task.objective.outputs) != {SINGLE_OUTPUT} or (self.pooling is None) != task.by_token:
            needed = "a BiLSTM tagger needs a task of labels for tokens"
            if self.pooling is not None:
                needed = "a linear classifier needs a task of one label, or one number, for whole texts"
            raise ConfigError(f"{needed}. Received: {task.name}")

    def rows(self, rows: EncodedRows, backbone: BertBackbone, output: Path) -> EncodedRows:
        """Returns rows whose inputs are features (`with_features`); ConfigError for rows with several choices."""
        if rows.choices > 1:
            raise ConfigError(f"features do not support multiple choice. Received: {rows.choices} choices")
        root, chosen = local_path(self.folder or output / FEATURES_NAME), self.chosen(backbone.config)
        if self.pooling is None:
            return with_features(rows, token_extraction(backbone, chosen.layers), root)
        return with_features(rows, pooled_extraction(backbone, chosen, self.pooling), root)

    def model(self, task: Task, backbone: BertBackbone) -> BertFeatureTagger | BertProbe:
        """Returns the whole model, from token ids to logits, with a new head."""
        # The number of classes is read from a model that the task builds.
        head: keras.Model = task.build(BertBackbone(_POINT))
        if self.pooling is None:
            return BertFeatureTagger(backbone, head.num_classes, self.combination, self.bilstm_dim)
        return BertProbe(backbone, head.num_classes, self.combination, self.pooling)

"""Names, shapes and dtypes of all records and tensors of the pre-training data.

Shape legend: B batch, S sequence, P predictions; packed: R rows, M examples per row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bert_tf.config.data import DataConfig

# Increment if an older reader would misread the new format.
SCHEMA_VERSION = 2
# Version of the algorithms that convert text to records: reading, cleaning, deduplication, sentence splitting,
# tokenization, drawing of examples, masking, encoding. Increment it with every change that produces different records
# for the same input and flags: shards of two versions must not be mixed in one data directory.
DATA_ALGORITHM_VERSION = 1


@dataclass(frozen=True)
class Feature:
    """One feature of a tf.train.Example."""

    name: str
    length: str | int | None  # number of values, or the field of `DataConfig` that holds it; None if it varies
    dtype: str = "int64"

    def length_in(self, config: DataConfig) -> int | None:
        """Returns the number of values in records of `config`; None if it varies."""
        return getattr(config, self.length) if isinstance(self.length, str) else self.length


# `dynamic` records: [CLS] a [SEP] b [SEP] without padding; the first length includes [CLS] and the first [SEP], the
# second length includes the second [SEP]. Single segments are [CLS] a [SEP], with second length 0 and label 0.
DYNAMIC_FEATURES = (
    Feature("input_ids", None),
    Feature("segment_lengths", 2),
    Feature("next_sentence_labels", 1),
)

# `static` records: the seven features of the original's create_pretraining_data.
STATIC_FEATURES = (
    Feature("input_ids", "max_seq_length"),
    Feature("input_mask", "max_seq_length"),
    Feature("segment_ids", "max_seq_length"),
    Feature("masked_lm_positions", "max_predictions_per_seq"),
    Feature("masked_lm_ids", "max_predictions_per_seq"),
    Feature("masked_lm_weights", "max_predictions_per_seq", "float32"),
    Feature("next_sentence_labels", 1),
)


def record_features(config: DataConfig) -> tuple[Feature, ...]:
    """Returns the features of the records of `config`."""
    return STATIC_FEATURES if config.masking == "static" else DYNAMIC_FEATURES


def length_feature(config: DataConfig) -> Feature:
    """Returns the feature of the records of `config` whose values sum to the number of tokens."""
    name = "input_mask" if config.masking == "static" else "segment_lengths"
    return next(feature for feature in record_features(config) if feature.name == name)


# Model inputs by name. `padding_mask` is 1 for tokens and 0 for padding.
TOKEN_IDS = "token_ids"  # (B, S) int32
SEGMENT_IDS = "segment_ids"  # (B, S) int32
PADDING_MASK = "padding_mask"  # (B, S) int32
MASK_POSITIONS = "mask_positions"  # (B, P) int32
FEATURES = "features"  # (B, S, L, H) float16: outputs of L layers of a frozen encoder

# Additional model inputs of packed batches; the inputs above are then (R, S) and (R, P).
EXAMPLE_IDS = "example_ids"  # (R, S) int32: number of the token's example in its row, from 1; 0 for padding
POSITION_IDS = "position_ids"  # (R, S) int32: position of the token in its example, from 0
FIRST_POSITIONS = "first_positions"  # (R, M) int32: start of each example, then 0

# Model outputs; targets and weights have the same names.
MLM_LOGITS = "mlm_logits"  # (B, P, V); targets (B, P) int32, weights (B, P) float32
# (B, 2); targets (B,) int32 (0 is next, 1 is random), weights (B,) float32. Packed: (R, M, 2), (R, M), (R, M).
NSP_LOGITS = "nsp_logits"
# Logits of the first and the last token of an answer, (B, S); targets and weights (B,).
START_LOGITS = "start_logits"
END_LOGITS = "end_logits"
# Name of the output of a model that returns one tensor instead of a dictionary.
SINGLE_OUTPUT = ""

# Record features of the original and the corresponding model inputs.
RECORD_TO_INPUT = {
    "input_ids": TOKEN_IDS,
    "input_mask": PADDING_MASK,
    "segment_ids": SEGMENT_IDS,
    "masked_lm_positions": MASK_POSITIONS,
}

SPLITS = ("train", "validation")
MANIFEST_NAME = "manifest.json"
VOCABULARY_NAME = "vocab.txt"
REPORT_NAME = "report.html"
# Cache of verified checksums, see `verification`.
VERIFIED_NAME = ".verified.json"


def shard_name(split: str, index: int, total: int) -> str:
    """Returns the file name of one shard, for example `train-00003-of-00010.tfrecord`."""
    return f"{split}-{index:05d}-of-{total:05d}.tfrecord"


def length_folder(max_seq_length: int | str) -> str:
    """Returns the folder name of one example length (`*` for any) in an output of several lengths."""
    return f"length-{max_seq_length}"

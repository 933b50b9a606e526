"""Every record and tensor of the pre-training data: the one place where names, shapes and dtypes stand.

Shape legend: B batch, S sequence, P predictions; packed: R rows, M examples a row.
"""

from __future__ import annotations

from dataclasses import dataclass

# Raised whenever a reader of the older form would misread the newer one.
SCHEMA_VERSION = 2
# Version of the algorithms that make records out of text: reading, cleaning, deduplication, sentence splitting,
# tokenization, drawing of examples, masking, encoding. Raise it with every change that gives other records for the
# same input and flags: shards of two versions must not stand in one data directory.
DATA_ALGORITHM_VERSION = 1


@dataclass(frozen=True)
class Feature:
    """One feature of a tf.train.Example. `length` is `None` for a variable number of values."""

    name: str
    length: str | int | None
    dtype: str = "int64"


# `dynamic` records: [CLS] a [SEP] b [SEP] unpadded; the two lengths count [CLS] and the first [SEP] with `a`,
# the second [SEP] with `b`. Single segments are [CLS] a [SEP], of a second length 0 and the label 0.
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

# What the model eats: inputs by name. `padding_mask` is 1 where there is a token.
TOKEN_IDS = "token_ids"  # (B, S) int32
SEGMENT_IDS = "segment_ids"  # (B, S) int32
PADDING_MASK = "padding_mask"  # (B, S) int32
MASK_POSITIONS = "mask_positions"  # (B, P) int32
FEATURES = "features"  # (B, S, L, H) float16: outputs of L layers of an encoder that is not trained

# Besides these, what it eats where a row holds several examples one after the other, (R, S) and (R, P) for the rest.
EXAMPLE_IDS = "example_ids"  # (R, S) int32: the number of a token's example in its row, from 1 on; 0 for none
POSITION_IDS = "position_ids"  # (R, S) int32: a token's place in its example, from 0 on
FIRST_POSITIONS = "first_positions"  # (R, M) int32: where each example begins, then 0

# What it gives, and the targets and weights under the same names.
MLM_LOGITS = "mlm_logits"  # (B, P, V); targets (B, P) int32, weights (B, P) float32
# (B, 2); targets (B,) int32 (0 is next, 1 is random), weights (B,) float32. Packed: (R, M, 2), (R, M), (R, M).
NSP_LOGITS = "nsp_logits"
# Scores of every place of a row for being an answer's first and last one, (B, S); targets and weights (B,).
START_LOGITS = "start_logits"
END_LOGITS = "end_logits"

# The one renaming between the original's record features and the model's inputs.
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
# What is known of shards whose checksums were compared, see `verification`.
VERIFIED_NAME = ".verified.json"


def shard_name(split: str, index: int, total: int) -> str:
    """Returns the file name of one shard, for example `train-00003-of-00010.tfrecord`."""
    return f"{split}-{index:05d}-of-{total:05d}.tfrecord"


def length_folder(max_seq_length: int | str) -> str:
    """Returns the folder of the examples of one length (`*`: of any), where several lengths were made together."""
    return f"length-{max_seq_length}"

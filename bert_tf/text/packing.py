"""Packs one or two segments of ids into model inputs: `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
import tensorflow_text as tf_text

from bert_tf.text.vocabulary import Vocabulary


def pack(
    segments: Sequence[tf.RaggedTensor],
    vocabulary: Vocabulary,
    max_sequence_length: int,
    fixed_length: bool = False,
) -> dict[str, tf.Tensor]:
    """Truncates, joins and pads segments; usable inside a graph.

    A pair that is too long loses tokens from the end of its longer segment, or of `b` if both have the same length, as
    in `_truncate_seq_pair` of the original.

    Args:
        segments: one or two segments, each ragged (B, None) int32.
        vocabulary: provides `[CLS]`, `[SEP]` and `[PAD]`.
        max_sequence_length: maximum tokens per row, including special tokens.
        fixed_length: whether rows are padded to `max_sequence_length` instead of the longest row.

    Returns:
        Dictionary of `token_ids`, `segment_ids` (0 for `[CLS] a [SEP]` and padding, 1 for `b [SEP]`) and `padding_mask`
        (1 for tokens, 0 for padding), each (B, S) int32.

    Raises:
        ValueError: for another number of segments, or a length too small for one token per segment.

    Example:
        >>> vocabulary = bert_tf.Vocabulary(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "film"))
        >>> tokenizer = bert_tf.BertTokenizer(vocabulary)
        >>> inputs = bert_tf.pack([tokenizer.ids(["good film", "film"])], vocabulary, 128)
        >>> inputs["token_ids"].numpy().tolist()
        [[2, 5, 6, 3], [2, 6, 3, 0]]
        >>> inputs["padding_mask"].numpy().tolist()
        [[1, 1, 1, 1], [1, 1, 1, 0]]
    """
    if len(segments) not in (1, 2):
        raise ValueError(f"`segments` must be one or two. Received: {len(segments)}")
    num_special = 1 + len(segments)
    if max_sequence_length < num_special + len(segments):
        raise ValueError(
            f"`max_sequence_length` must be at least {num_special + len(segments)} for {len(segments)} "
            f"segment(s). Received: {max_sequence_length}"
        )
    trimmed = trim(segments, max_sequence_length - num_special)
    token_ids, segment_ids = tf_text.combine_segments(trimmed, vocabulary.cls_id, vocabulary.sep_id)
    shape = [None, max_sequence_length if fixed_length else None]
    return {
        "token_ids": token_ids.to_tensor(vocabulary.pad_id, shape=shape),
        "segment_ids": tf.cast(segment_ids.to_tensor(shape=shape), tf.int32),
        "padding_mask": tf.ones_like(token_ids).to_tensor(shape=shape),
    }


def trim(segments: Sequence[tf.RaggedTensor], most: int) -> list[tf.RaggedTensor]:
    """Cuts one or two segments at their ends, so that each row has at most `most` tokens; usable inside a graph.

    It gives what tensorflow-text's `RoundRobinTrimmer` gives, in operations of TensorFlow: its operation
    `TFText>RoundRobinTrim` is missing in TF Serving before 2.20.

    Args:
        segments: one or two segments, each ragged (B, None).
        most: maximum tokens of a row in all segments.

    Returns:
        The segments, each ragged (B, None), without the tokens that are too many.
    """
    lengths = [segment.row_lengths() for segment in segments]
    # Each segment keeps its share, and what the other one leaves.
    shares = [most] if len(segments) == 1 else [most - most // 2, most // 2]
    rests = [most - sum(lengths[:number] + lengths[number + 1 :]) for number in range(len(segments))]
    return [
        first_tokens(segment, tf.minimum(length, tf.maximum(tf.cast(share, length.dtype), rest)))
        for segment, length, share, rest in zip(segments, lengths, shares, rests, strict=True)
    ]


def first_tokens(rows: tf.RaggedTensor, counts: tf.Tensor) -> tf.RaggedTensor:
    """Returns the first `counts` (B,) values of each row."""
    places = tf.ragged.range(rows.row_lengths()).flat_values
    kept = places < tf.repeat(counts, rows.row_lengths())
    return tf.RaggedTensor.from_row_lengths(tf.boolean_mask(rows.flat_values, kept), counts, validate=False)

"""Heads of texts and pairs of texts: `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, truncated or split into windows.

Shape legend: E examples, B texts, N rows, C classes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import tensorflow as tf
from scipy.special import softmax

from bert_tf.data.schema import PADDING_MASK, SEGMENT_IDS, SINGLE_OUTPUT, TOKEN_IDS
from bert_tf.encoding.graph import checked_row_count, sliced, within_groups
from bert_tf.encoding.heads import Head
from bert_tf.encoding.predictions import LabelPrediction, NumberPrediction, check_unranked
from bert_tf.encoding.rows import Arrays, EncodedRows
from bert_tf.text import columns
from bert_tf.text.packing import first_tokens, pack
from bert_tf.text.tokenizer import TextTokenizer, string_tensor

# Ways to shorten a pair: the longer text token by token, or one of them.
TRUNCATIONS = ("longest_first", "only_first", "only_second")
# Number of rows that are padded and packed at once.
_PART = 4096
# Minimum overlap of neighbouring windows, as a share of a window.
_OVERLAP = 0.25

TextAnswer = TypeVar("TextAnswer")


@dataclass(frozen=True)
class TextExample:
    """An example of one or two texts at a `place`, file and line.

    `label` is the gold label, or the gold number as text; None if unknown. `key` is the index of the example in files
    of predictions, if their format has one.
    """

    place: str
    texts: tuple[str, ...]
    label: str | None = None
    key: str = ""


@dataclass(frozen=True)
class LabelAnswer:
    """The predicted label, and the probability of each label in the order of the task's labels."""

    label: str
    probabilities: tuple[float, ...]


@dataclass(frozen=True)
class NumberAnswer:
    """The predicted number."""

    number: float


@dataclass(frozen=True)
class TextsHead(Head[TextExample, TextAnswer]):
    """Base class of heads with one prediction for a text or a pair of texts, of the names `text_names`.

    `pooling` is that of `BertTextClassifier`. `windows` splits texts longer than a row (`text_rows`): each window is a
    training row, and the prediction is the mean over the example's windows.
    """

    text_names: tuple[str, ...] = ("text",)
    pooling: str = "first"
    windows: bool = False

    def targets(self, examples: Sequence[TextExample]) -> tuple[np.ndarray, np.ndarray | None]:
        """Returns the targets, (E,), and float32 weights of the same shape; None weighs all 1."""
        raise NotImplementedError

    def encode(
        self, examples: Sequence[TextExample], tokenizer: TextTokenizer, length: int, labelled: bool = True
    ) -> EncodedRows:
        """Encodes each example, or each of its windows, as `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`."""
        rows = text_rows([example.texts for example in examples], tokenizer, length, self.windows)
        return rows.with_targets(*self.targets(examples)) if labelled else rows

    def examples_of(self, x: Any) -> list[TextExample]:
        """Returns texts, or pairs of texts, as examples; columns are selected by `text_names` if they have names."""
        return [TextExample(f"row {number}", texts) for number, texts in enumerate(columns.rows_of(x, self.text_names))]

    def description(self) -> dict[str, Any]:
        """Returns the fields, and the number of texts for the export."""
        return {**dataclasses.asdict(self), "text_columns": len(self.text_names)}

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        """Builds the task from its `description`, after a JSON round trip."""
        return super().from_description({name: value for name, value in description.items() if name != "text_columns"})


@dataclass(frozen=True)
class LabelHead(TextsHead[LabelAnswer]):
    """One of `labels`, which are in the order of the model's outputs."""

    name: ClassVar[str] = "classify"

    labels: tuple[str, ...] = ()

    def answers(self, examples: Sequence[TextExample], rows: EncodedRows, outputs: Arrays) -> list[LabelAnswer]:
        """Returns labels and probabilities, averaged over the windows of each example."""
        return self.labelled(mean_of_windows(softmax(outputs[SINGLE_OUTPUT], axis=1), rows, len(examples)))

    def labelled(self, probabilities: np.ndarray) -> list[LabelAnswer]:
        """Returns the most probable labels, by probabilities (E, C)."""
        return [LabelAnswer(self.labels[int(row.argmax())], tuple(row.tolist())) for row in probabilities]

    def predictions(
        self, examples: Sequence[TextExample], answers: Sequence[LabelAnswer], top_k: int | None = None
    ) -> list[LabelPrediction]:
        """Returns labels and probabilities by label; with `top_k`, the most probable ones in descending order."""
        predictions: list[LabelPrediction] = []
        for answer in answers:
            named = dict(zip(self.labels, answer.probabilities, strict=True))
            if top_k is not None:
                named = dict(sorted(named.items(), key=lambda pair: -pair[1])[:top_k])
            predictions.append({"label": answer.label, "probabilities": named})
        return predictions


@dataclass(frozen=True)
class NumberHead(TextsHead[NumberAnswer]):
    """A number; the model's output is standardized by `mean` and `deviation`."""

    name: ClassVar[str] = "regression"

    mean: float = 0.0
    deviation: float = 1.0

    def answers(self, examples: Sequence[TextExample], rows: EncodedRows, outputs: Arrays) -> list[NumberAnswer]:
        """Returns the predicted numbers on the scale of the files, averaged over the windows of each example."""
        means = mean_of_windows(outputs[SINGLE_OUTPUT][:, 0], rows, len(examples))
        return [NumberAnswer(self.mean + self.deviation * number) for number in means.tolist()]

    def predictions(
        self, examples: Sequence[TextExample], answers: Sequence[NumberAnswer], top_k: int | None = None
    ) -> list[NumberPrediction]:
        """Returns the numbers. Raises ConfigError for `top_k`."""
        check_unranked(self.name, top_k)
        return [{"number": answer.number} for answer in answers]


def text_rows(
    texts: Sequence[Sequence[str]],
    tokenizer: TextTokenizer,
    length: int,
    windows: bool = False,
    truncation: str = TRUNCATIONS[0],
    keep_mask_token: bool = False,
) -> TextRows:
    """Encodes texts as rows of at most `length` tokens, without targets.

    Args:
        texts: one or two texts for each example.
        tokenizer: the tokenizer.
        length: maximum tokens of a row.
        windows: True splits longer examples into several rows instead of truncating them. The longer text (the first
            of equally long ones) is covered by windows that overlap by at least a quarter, and each window also holds
            the other text, truncated to half of a row.
        truncation: one of `TRUNCATIONS`.
        keep_mask_token: True to read a literal [MASK] as the mask token.

    Returns:
        The rows.
    """
    parts: list[tuple[np.ndarray, ...]] = []
    truncated = 0
    for begin in range(0, max(1, len(texts)), _PART):
        part = texts[begin : begin + _PART]
        held = zip(*part, strict=True) if part else [()]
        segments = [_ids(tokenizer, column, keep_mask_token) for column in held]
        room = length - 1 - len(segments)
        truncated += int(tf.reduce_sum(tf.cast(sum(s.row_lengths() for s in segments) > room, tf.int64)))
        of = np.arange(len(part))
        if windows:
            segments, rows = windows_of(segments, room)
            of = rows.numpy()
        for first in range(0, max(1, len(of)), _PART):
            some = [segment[first : first + _PART] for segment in segments]
            packed = pack(shortened(some, room, truncation), tokenizer.vocabulary, length)
            parts.append((*_unpadded(packed), begin + of[first : first + _PART]))
    token_ids, lengths, first_lengths, examples = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return TextRows(
        token_ids=token_ids,
        row_splits=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]),
        first_lengths=first_lengths,
        pad_id=tokenizer.vocabulary.pad_id,
        examples=examples,
        truncated=0 if windows else truncated,
    )


@dataclass(frozen=True)
class TextRows(EncodedRows):
    """Rows of texts, and the number of examples that were truncated."""

    truncated: int = field(default=0, kw_only=True)


def _ids(tokenizer: TextTokenizer, texts: Sequence[str], keep_mask_token: bool) -> tf.RaggedTensor:
    if keep_mask_token:
        return tokenizer.ids(string_tensor(texts), keep_mask_token=True)
    return tokenizer.tokenize(texts).tensor


def shortened(segments: Sequence[tf.RaggedTensor], room: int, truncation: str) -> list[tf.RaggedTensor]:
    """Returns segments with that text truncated which `truncation` names, for `pack`; usable inside a graph."""
    segments = list(segments)
    if len(segments) == 2 and truncation != TRUNCATIONS[0]:
        cut = TRUNCATIONS.index(truncation) - 1
        kept = segments[1 - cut][:, :room]
        segments[1 - cut] = kept
        segments[cut] = first_tokens(segments[cut], tf.minimum(segments[cut].row_lengths(), room - kept.row_lengths()))
    return segments


def windows_of(
    segments: Sequence[tf.RaggedTensor], room: int, name: str | None = None
) -> tuple[list[tf.RaggedTensor], tf.Tensor]:
    """Cuts examples that are longer than a row into windows of the longer text; usable inside a graph.

    Args:
        segments: one or two segments, ragged (B, None) int32.
        room: number of tokens of a row without special tokens.
        name: name of an input of a graph, for the error about too many rows; None for any number of rows.

    Returns:
        The segments of all rows, ragged (N, None), and the example of each row, int64 (N,), ascending.
    """
    lengths = tf.stack([segment.row_lengths() for segment in segments])
    longer = tf.argmax(lengths, axis=0)
    is_longer = tf.equal(tf.range(len(segments), dtype=tf.int64)[:, tf.newaxis], longer)
    kept = tf.minimum(lengths, room // 2)
    width = room - tf.reduce_sum(tf.where(is_longer, tf.zeros_like(kept), kept), axis=0)
    beyond = tf.reduce_max(lengths, axis=0) - width
    fits = tf.reduce_sum(lengths, axis=0) <= room
    step = tf.maximum(tf.cast(tf.floor(tf.cast(width, tf.float64) * (1 - _OVERLAP)), tf.int64), 1)
    counts = tf.where(fits, tf.ones_like(beyond), 1 - (-beyond // step))
    checks = [] if name is None else [checked_row_count(tf.cast(tf.reduce_sum(counts), tf.int32), name)]
    with tf.control_dependencies(checks):
        of, number = within_groups(tf.identity(counts))
    last = tf.gather(counts, of) - 1
    spread = tf.cast(tf.gather(beyond, of), tf.float64) / tf.cast(tf.maximum(last, 1), tf.float64)
    first = tf.where(number < last, tf.cast(tf.round(tf.cast(number, tf.float64) * spread), tf.int64),
                     tf.gather(beyond, of))  # fmt: skip
    whole = tf.gather(fits, of)
    rows = []
    for column, segment in enumerate(segments):
        moves = tf.gather(is_longer[column], of) & ~whole
        begins = tf.gather(segment.row_starts(), of) + tf.where(moves, first, tf.zeros_like(first))
        cut = tf.where(moves, tf.gather(width, of), tf.gather(kept[column], of))
        rows.append(sliced(segment.values, begins, tf.where(whole, tf.gather(lengths[column], of), cut)))
    return rows, of


def mean_of_windows(values: np.ndarray, rows: EncodedRows, examples: int) -> np.ndarray:
    """Returns the mean value of each example's rows: float64 (examples, ...) from (N, ...)."""
    sums = np.zeros((examples, *values.shape[1:]))
    np.add.at(sums, rows.examples, values)
    counts = np.bincount(rows.examples, minlength=examples)
    return sums / counts.reshape(-1, *[1] * (values.ndim - 1))


def _unpadded(packed: Mapping[str, tf.Tensor]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the tokens of packed rows, the length of each row and of its first segment, all int32."""
    token_ids, segment_ids, mask = (packed[name].numpy() for name in (TOKEN_IDS, SEGMENT_IDS, PADDING_MASK))
    first = (mask == 1) & (segment_ids == 0)
    return token_ids[mask == 1], mask.sum(axis=1, dtype=np.int32), first.sum(axis=1, dtype=np.int32)

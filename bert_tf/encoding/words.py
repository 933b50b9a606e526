"""Head of words: one class for each word, and the entities that the tags form.

The functions of numpy serve files, which may fill up a row with the context of a document; `rows_of_words` is the twin
in the graph of an export.

Shape legend: B texts, N rows, T tokens of all rows, W words of all sentences, C classes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import tensorflow as tf
from scipy.special import softmax

from bert_tf.config import ConfigError
from bert_tf.data.schema import SINGLE_OUTPUT
from bert_tf.encoding.graph import MAX_MODEL_ROWS, checked_row_count
from bert_tf.encoding.heads import Head
from bert_tf.encoding.predictions import EntityPrediction, WordsPrediction, check_unranked
from bert_tf.encoding.rows import Arrays, EncodedRows
from bert_tf.encoding.tags import SCHEMES, entities, in_scheme
from bert_tf.text import columns
from bert_tf.text import words as text_words
from bert_tf.text.tokenizer import TextTokenizer, string_tensor

DOCUMENT_START = "-DOCSTART-"
# Name of the input, as in exported models.
TEXT_NAME = "text"


# [CLS] and [SEP].
_SPECIAL = 2


@dataclass(frozen=True)
class Sentence:
    """A sentence of words, with its tags and the text to write predictions.

    `line` is that of the first word; the other words follow on consecutive lines. Words have no language prefix; `tags`
    are as in the file, or () if not read. `written` has the output line of each word without the predicted tag: all
    columns, then the gold tag again if its column is not the last. `before` has the output lines since the previous
    sentence, `after` those after the last sentence of the file. `document` has the words of all sentences of the
    document, of which this is the one at index `number`.
    """

    path: Path
    line: int
    words: tuple[str, ...]
    tags: tuple[str, ...]
    written: tuple[str, ...]
    separator: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    document: tuple[tuple[str, ...], ...] = field(default=(), repr=False)
    number: int = 0

    @property
    def place(self) -> str:
        """File and line."""
        return self.place_of(0)

    @property
    def begins_document(self) -> bool:
        """True if a document begins between the previous sentence and this one."""
        return any(DOCUMENT_START in line for line in self.before)

    def place_of(self, word: int) -> str:
        """Returns file and line of a word."""
        return f"{self.path}: line {self.line + word}"


@dataclass(frozen=True)
class NerAnswer:
    """The tag of each word in the scheme of the task.

    `classes` are the tags that the model predicts, before they are converted to the scheme, and `probabilities` their
    probabilities; both are () if the tags were read from a file. `distributions` has the probability of each class,
    float32 (words, classes), for ensembles.
    """

    tags: tuple[str, ...]
    classes: tuple[str, ...] = ()
    probabilities: tuple[float, ...] = ()
    distributions: np.ndarray | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class TextSentence(Sentence):
    """The words of a text, with the first character of each and the character after its last."""

    text: str = ""
    starts: tuple[int, ...] = ()
    limits: tuple[int, ...] = ()


@dataclass(frozen=True)
class WordsHead(Head[Sentence, NerAnswer]):
    """One of `labels` for each word, converted to tags of `scheme`, one of `tags.SCHEMES`.

    `labels` are O, then B- and I- of each type, in the order of the model's outputs. A `scheme` of "" leaves the labels
    as they are.
    """

    name: ClassVar[str] = "ner"
    by_token: ClassVar[bool] = True
    # Rows are only as long as their sentences, so a large limit costs nothing; document context fills it up.
    max_sequence_length: ClassVar[int] = 512

    scheme: str = ""
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.scheme and self.scheme not in SCHEMES:
            raise ValueError(f"`scheme` must be one of {', '.join(SCHEMES)}. Received: {self.scheme!r}")

    def encode(
        self, examples: Sequence[Sentence], tokenizer: TextTokenizer, length: int, labelled: bool = True
    ) -> EncodedRows:
        """Encodes sentences with `word_rows`; targets are the classes of the words, at their first pieces."""
        return word_rows(examples, tokenizer, length, self.targets(examples) if labelled else None)

    def targets(self, examples: Sequence[Sentence]) -> np.ndarray:
        """Returns the classes of all words, int32 (W,)."""
        raise NotImplementedError

    def answers(self, examples: Sequence[Sentence], rows: EncodedRows, outputs: Arrays) -> list[NerAnswer]:
        """Returns the most probable class of each word, independently as in the paper, and tags of the scheme."""
        logits = outputs[SINGLE_OUTPUT][rows.weights[SINGLE_OUTPUT] > 0]
        probabilities = softmax(logits, axis=-1)
        bounds = itertools.pairwise(itertools.accumulate((len(sentence.words) for sentence in examples), initial=0))
        return [self.tagged(logits[begin:end], probabilities[begin:end]) for begin, end in bounds]

    def tagged(self, scores: np.ndarray, probabilities: np.ndarray) -> NerAnswer:
        """Returns the classes of the largest scores, with their probabilities; both are (words, C)."""
        classes = tuple(self.labels[number] for number in scores.argmax(axis=-1))
        largest = tuple(probabilities.max(axis=-1, initial=0.0).tolist())
        tags = in_scheme(classes, self.scheme) if self.scheme else classes
        return NerAnswer(tags, classes, largest, probabilities)

    def examples_of(self, x: Any) -> list[Sentence]:
        """Returns texts, or lists of words, as sentences, each a document of its own."""
        return list(sentences_of(x))

    def predictions(
        self, examples: Sequence[Sentence], answers: Sequence[NerAnswer], top_k: int | None = None
    ) -> list[WordsPrediction]:
        """Returns entities, words and tags. Raises ConfigError for `top_k`."""
        check_unranked(self.name, top_k)
        return [prediction_of(sentence, answer) for sentence, answer in zip(examples, answers, strict=True)]


def sentences_of(x: Any) -> list[TextSentence]:
    """Returns the sentence of each text.

    Args:
        x: texts, which are split into words as in exported models (`text.words`); or lists of words, whose text is the
            words joined by single spaces; or a single text; or a dictionary or data frame with such a column.

    Returns:
        The sentences; each is a document of its own.

    Raises:
        ConfigError: for anything else, with the number of the row.
    """
    if isinstance(x, str | bytes):
        x = [x]
    column = columns.named_columns(x, (TEXT_NAME,))[0] if isinstance(x, Mapping) or hasattr(x, "columns") else x
    rows = [row.decode("utf-8", "replace") if isinstance(row, bytes) else row for row in columns.items_of(column)]
    split = iter(_split([row for row in rows if isinstance(row, str)]))
    return [
        next(split) if isinstance(row, str) else _of_words(_checked_words(row, number))
        for number, row in enumerate(rows)
    ]


def prediction_of(sentence: Sentence, answer: NerAnswer) -> WordsPrediction:
    """Returns the entities of a sentence; a sentence from a file has the text of its words joined by single spaces."""
    in_text = sentence if isinstance(sentence, TextSentence) else _of_words(sentence.words)
    found: list[EntityPrediction] = []
    for entity in entities(answer.classes):
        start, end = in_text.starts[entity.start], in_text.limits[entity.end - 1]
        found.append(
            {
                "entity": in_text.text[start:end],
                "type": entity.type,
                "start": start,
                "end": end,
                "score": float(np.mean(answer.probabilities[entity.start : entity.end])),
            }
        )
    return {"entities": found, "words": list(sentence.words), "tags": list(answer.tags)}


def _split(texts: Sequence[str]) -> list[TextSentence]:
    """Splits texts into words."""
    found = text_words.split(string_tensor(texts), at_spaces_only=False)
    strings = [word.decode("utf-8") for word in found.strings.numpy()]
    starts, limits = found.starts.numpy().tolist(), found.limits.numpy().tolist()
    bounds = itertools.pairwise(found.row_splits.numpy().tolist())
    return [
        _sentence(text, strings[begin:end], starts[begin:end], limits[begin:end])
        for text, (begin, end) in zip(texts, bounds, strict=True)
    ]


def _checked_words(row: Any, number: int) -> list[str]:
    held = columns.items_of(row) if isinstance(row, Iterable) else [row]
    strings = [word.decode("utf-8", "replace") if isinstance(word, bytes) else word for word in held]
    for word in strings:
        if not isinstance(word, str):
            raise ConfigError(
                f"`{TEXT_NAME}` must hold texts or lists of words. Received: {word!r} in row {number}. "
                "Remove or convert it."
            )
    return strings


def _of_words(sentence: Sequence[str]) -> TextSentence:
    limits = (np.cumsum([len(word) + 1 for word in sentence], dtype=np.int64) - 1).tolist()
    starts = [limit - len(word) for limit, word in zip(limits, sentence, strict=True)]
    return _sentence(" ".join(sentence), sentence, starts, limits)


def _sentence(text: str, sentence: Sequence[str], starts: Sequence[int], limits: Sequence[int]) -> TextSentence:
    held = tuple(sentence)
    return TextSentence(
        Path(), 0, held, (), (), "", document=(held,), text=text, starts=tuple(starts), limits=tuple(limits)
    )


class WordWindow(NamedTuple):
    """A row of words `start` to `end` (exclusive), in which `first` to `last` (exclusive) are predicted."""

    start: int
    end: int
    first: int
    last: int


def word_rows(
    sentences: Sequence[Sentence], tokenizer: TextTokenizer, length: int, targets: np.ndarray | None = None
) -> EncodedRows:
    """Encodes each sentence as `[CLS] words [SEP]`, filled up with context words of its document.

    A sentence that is too long is split into several rows. A word is predicted at its first piece, which has weight 1
    in exactly one row; all other tokens have weight 0. A word that normalization removes becomes [UNK]; a word longer
    than a row keeps its first pieces.

    Sentences of a document are consecutive and in order. `targets` has the class of each word, int32 (W,); tokens of
    weight 1 are the words, in order. Raises ValueError if `length`, the maximum tokens of a row, has no room for a
    piece.
    """
    capacity = length - _SPECIAL
    if capacity < 1:
        raise ValueError(f"`max_sequence_length` must be at least {_SPECIAL + 1} for words. Received: {length}")
    words, spans = _laid_out(sentences, capacity)
    pieces, offsets = _pieces(words, tokenizer, capacity)
    rows = [
        (number, window)
        for number, (first, last, begin, end) in enumerate(spans)
        for window in windows(offsets, first, last, begin, end, capacity)
    ]
    token_ids, row_splits, weights = _joined([window for _, window in rows], pieces, offsets, tokenizer)
    token_targets = {}
    if targets is not None:
        token_targets[SINGLE_OUTPUT] = np.zeros(len(token_ids), np.int32)
        token_targets[SINGLE_OUTPUT][weights > 0] = targets
    return EncodedRows(
        token_ids=token_ids,
        row_splits=row_splits,
        first_lengths=np.diff(row_splits).astype(np.int32),
        pad_id=tokenizer.vocabulary.pad_id,
        targets=token_targets,
        weights={SINGLE_OUTPUT: weights},
        examples=np.array([number for number, _ in rows], np.int64),
    )


def windows(offsets: np.ndarray, first: int, last: int, begin: int, end: int, capacity: int) -> Iterator[WordWindow]:
    """Yields the rows of the sentence of words `first` to `last` in a document of words `begin` to `end` (exclusive).

    This is one row with the sentence in the middle. If the sentence does not fit: rows that overlap by half, with each
    word predicted in the row where it is farthest from the nearer edge. `offsets`, (words + 1,), are the start offsets
    of the words' pieces; each word has 1 to `capacity` pieces, the maximum of a row.
    """
    if offsets[last] - offsets[first] <= capacity:
        start, stop = _filled(offsets, first, last, begin, end, capacity)
        yield WordWindow(start, stop, first, last)
        return
    starts, ends = [first], [_fitting(offsets, first, capacity)]
    while ends[-1] < last:
        half = int(np.searchsorted(offsets, offsets[starts[-1]] + capacity / 2))
        start = max(starts[-1] + 1, min(half, ends[-1]))
        ends.append(min(last, _fitting(offsets, start, capacity)))
        # The last row extends back as far as it can.
        starts.append(start if ends[-1] < last else int(np.searchsorted(offsets, offsets[last] - capacity)))
    middles = [(offsets[start] + offsets[stop]) / 2 for start, stop in zip(starts[1:], ends, strict=False)]
    cuts = [first, *(int(cut) for cut in np.searchsorted(offsets, middles)), last]
    for start, stop, (one, other) in zip(starts, ends, itertools.pairwise(cuts), strict=True):
        # With long words, a row may be the best one for none of its words.
        if one < other:
            yield WordWindow(start, stop, one, other)


def _fitting(offsets: np.ndarray, start: int, capacity: int) -> int:
    """Returns the end (exclusive) of the words that fit into a row from `start`."""
    return int(np.searchsorted(offsets, offsets[start] + capacity, side="right")) - 1


def _filled(offsets: np.ndarray, first: int, last: int, begin: int, end: int, capacity: int) -> tuple[int, int]:
    """Returns the words of a row around `first` to `last`, with equal context on both sides where possible."""
    left = (capacity - (offsets[last] - offsets[first])) // 2
    start = max(begin, int(np.searchsorted(offsets, offsets[first] - left)))
    stop = min(end, _fitting(offsets, start, capacity))
    # Room that the right side does not need goes to the left side.
    return max(begin, int(np.searchsorted(offsets, offsets[stop] - capacity))), stop


def _laid_out(sentences: Sequence[Sentence], reach: int) -> tuple[list[str], list[tuple[int, int, int, int]]]:
    """Returns the words, and the bounds of each sentence and of its document among them.

    Only sentences of the document within `reach` words of the requested ones are included.
    """
    words: list[str] = []
    spans: list[tuple[int, int, int, int]] = []
    for _, group in itertools.groupby(sentences, key=lambda sentence: id(sentence.document)):
        requested = list(group)
        document = requested[0].document
        begin = _back(document, requested[0].number, reach)
        end = len(document) - _back(document[::-1], len(document) - 1 - requested[-1].number, reach)
        splits = len(words) + np.cumsum([0, *(len(sentence) for sentence in document[begin:end])])
        words += itertools.chain.from_iterable(document[begin:end])
        spans += [
            (
                int(splits[sentence.number - begin]),
                int(splits[sentence.number - begin + 1]),
                int(splits[0]),
                int(splits[-1]),
            )
            for sentence in requested
        ]
    return words, spans


def _back(document: Sequence[Sequence[str]], number: int, reach: int) -> int:
    """Returns the first sentence that is within `reach` words before sentence `number`."""
    while number > 0 and reach > 0:
        number -= 1
        reach -= len(document[number])
    return number


def _pieces(words: Sequence[str], tokenizer: TextTokenizer, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the pieces of all words, 1 to `most` each, int32, and the start offset of each word, and the end."""
    numbers: dict[str, int] = {}
    index = np.array([numbers.setdefault(word, len(numbers)) for word in words], np.int64)
    found = tokenizer.tokenize_words(list(numbers))
    ids, splits = found.values, found.row_splits
    counts = np.diff(splits)
    # [UNK] is appended after all pieces, for words without pieces.
    begins = np.where(counts > 0, splits[:-1], len(ids))[index]
    lengths = np.clip(counts, 1, most)[index]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    places = np.repeat(begins - offsets[:-1], lengths) + np.arange(offsets[-1])
    return np.append(ids, tokenizer.vocabulary.unk_id).astype(np.int32)[places], offsets


def _joined(
    rows: Sequence[WordWindow], pieces: np.ndarray, offsets: np.ndarray, tokenizer: TextTokenizer
) -> tuple[np.ndarray, ...]:
    """Returns token ids, row splits and token weights of all rows."""
    lengths = [int(offsets[row.end] - offsets[row.start]) + _SPECIAL for row in rows]
    splits = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    ids = np.full(splits[-1], tokenizer.vocabulary.sep_id, np.int32)
    weights = np.zeros(splits[-1], np.float32)
    ids[splits[:-1]] = tokenizer.vocabulary.cls_id
    for begin, stop, row in zip(splits[:-1] + 1, splits[1:] - 1, rows, strict=True):
        ids[begin:stop] = pieces[offsets[row.start] : offsets[row.end]]
        weights[begin + offsets[row.first : row.last] - offsets[row.start]] = 1.0
    return ids, splits, weights


class WordRows(NamedTuple):
    """Rows of words, and the row in which each word is predicted."""

    starts: tf.Tensor  # (N,), first word of each row
    ends: tf.Tensor  # (N,), word after the last of each row
    of_word: tf.Tensor  # (W,), row in which a word is predicted: the one whose nearer edge is farthest from the word


def rows_of_words(offsets: tf.Tensor, splits: tf.Tensor, capacity: int, name: str) -> WordRows:
    """Returns one row for a text that fits, otherwise rows that overlap by half.

    Row splits of the word pieces (W + 1,) and of the words (B + 1,) describe the texts; each word has at least 1 and at
    most `capacity` pieces, as many as a row. An error about too many rows names the input `name`.
    """
    begins = tf.gather(offsets, splits)
    fit = tf.reduce_all(begins[1:] - begins[:-1] <= capacity)
    texts = tf.range(tf.size(splits, tf.int64) - 1)
    whole = (texts, splits[:-1], splits[1:])
    of, starts, ends = tf.cond(fit, lambda: whole, lambda: _cut_in_graph(offsets, splits, capacity))
    with tf.control_dependencies([checked_row_count(tf.size(of), name)]):
        of = tf.identity(of)
    # From the middle of the overlap of two rows, words are predicted in the second row.
    goes_on = tf.concat([of[1:] == of[:-1], [False]], 0)[: tf.size(of)]
    next_starts = tf.concat([starts[1:], [0]], 0)[: tf.size(of)]
    middles = tf.searchsorted(
        2 * offsets, tf.gather(offsets, next_starts) + tf.gather(offsets, ends), out_type=tf.int64
    )
    lasts = tf.where(goes_on, middles, ends)
    words = tf.range(tf.size(offsets, tf.int64) - 1)
    return WordRows(starts, ends, tf.searchsorted(lasts, words, side="right", out_type=tf.int64))


def _cut_in_graph(offsets: tf.Tensor, splits: tf.Tensor, capacity: int) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the text, the first word and the word after the last of each row, (N,), N <= `MAX_MODEL_ROWS` + 1."""

    def word_at(value: tf.Tensor, side: str) -> tf.Tensor:
        return tf.searchsorted(offsets, value[tf.newaxis], side=side, out_type=tf.int64)[0]

    def row(text: tf.Tensor, start: tf.Tensor, number: tf.Tensor, *rows: tf.TensorArray) -> tuple[tf.Tensor, ...]:
        first, last = splits[text], splits[text + 1]
        end = tf.minimum(last, word_at(offsets[start] + capacity, "right") - 1)
        is_last = end >= last
        # The last row extends back as far as possible.
        begin = tf.where(is_last, tf.maximum(first, word_at(offsets[last] - capacity, "left")), start)
        half = word_at(offsets[start] + (capacity + 1) // 2, "left")
        following = tf.maximum(start + 1, tf.minimum(half, end))
        text_rows = [array.write(number, value) for array, value in zip(rows, (text, begin, end), strict=True)]
        return text + tf.cast(is_last, tf.int64), tf.where(is_last, last, following), number + 1, *text_rows

    def goes_on(text: tf.Tensor, start: tf.Tensor, number: tf.Tensor, *rows: tf.TensorArray) -> tf.Tensor:
        del start, rows
        return (text < tf.size(splits, tf.int64) - 1) & (number <= MAX_MODEL_ROWS)

    arrays = [tf.TensorArray(tf.int64, 0, dynamic_size=True, element_shape=[]) for _ in range(3)]
    state = (tf.constant(0, tf.int64), tf.constant(0, tf.int64), tf.constant(0), *arrays)
    return tuple(array.stack() for array in tf.while_loop(goes_on, row, state, parallel_iterations=1)[3:])

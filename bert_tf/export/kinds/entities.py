"""Signatures of token classifiers: named entities with text, type and position.

Shape legend: B texts, N rows, S sequence, W words of all texts, E entities of all texts, C classes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.config import ConfigError
from bert_tf.data.schema import PADDING_MASK, SEGMENT_IDS, TOKEN_IDS
from bert_tf.encoding.graph import ROWS_AT_ONCE, Outputs, in_parts, padded_rows, sliced
from bert_tf.encoding.tags import OUTSIDE, SCHEMES, MarkedWords, letters, marked
from bert_tf.encoding.words import WordRows, WordsHead, rows_of_words
from bert_tf.export.checks import checked_texts
from bert_tf.export.kinds.base import Endpoint, Signatures, class_labels, python_values
from bert_tf.export.kinds.encoder import TEXT
from bert_tf.export.verify.comparison import Tensors
from bert_tf.export.verify.tolerances import is_tie
from bert_tf.models import Preset
from bert_tf.text import words

WORDS_SIGNATURE = "words"


class _Tagged(NamedTuple):
    """Words and their classes."""

    words: words.TextWords
    classes: tf.Tensor  # (W,) int32
    probabilities: tf.Tensor  # (W,) float32, probability of that class
    marks: MarkedWords


class EntitySignatures(Signatures):
    """`serving_default`: text [B] -> entities, each output [B, largest number of entities].

    | output | |
    |---|---|
    | entities | string, the text of the entity; padded with "" |
    | types | string |
    | starts, ends | int32, first character (code point, from 0) and one past the last; padded with -1 |
    | scores | float32, mean probability of the predicted classes of its words; padded with 0 |

    The text is split into words by `words.split`. The signature `words` takes text that is already split at spaces, as
    `predict` does, and has further outputs [B, largest number of words]: words, tags in the scheme of the preset
    (`tag_scheme` of the model card), probabilities.

    Raises:
        ConfigError: for labels other than O, B- and I-, and for an unknown scheme.
    """

    task_length = WordsHead.max_sequence_length
    texts = (TEXT,)
    by_token = ("logits",)
    logits = ("logits",)
    probabilities = ("scores", "probabilities")

    def __init__(self, preset: Preset, max_sequence_length: int | None = None) -> None:
        super().__init__(preset, max_sequence_length)
        names = class_labels(preset)
        for name in names:
            if name != OUTSIDE and (name[:2] not in ("B-", "I-") or not name[2:]):
                raise ConfigError(f"task.json: `labels` must be O, or B- or I- and a type. Received: {name!r}")
        self.labels = self._names = names
        self._scheme: str = (preset.task or {}).get("scheme") or "IOB2"
        if self._scheme not in SCHEMES:
            raise ConfigError(f"task.json: `scheme` must be one of {', '.join(SCHEMES)}. Received: {self._scheme!r}")
        self.tag_scheme = self._scheme
        self._types = [name[2:] for name in names]

    @property
    def endpoints(self) -> dict[str, Endpoint]:
        """The signatures of all kinds, and `words`."""
        return {**super().endpoints, WORDS_SIGNATURE: Endpoint(self._answer_words, self.text_inputs)}

    def answer(self, *inputs: tf.Tensor) -> Outputs:
        """Returns the entities of texts."""
        (text,) = checked_texts(dict(zip(self.texts, inputs, strict=True)))
        return self._entities(text, self._tagged(words.split(text, at_spaces_only=False)))

    def row(self, outputs: Tensors) -> dict[str, Any]:
        """Returns `entities`, each with `entity`, `type`, `start`, `end` and `score`."""
        names = {"entities": "entity", "types": "type", "starts": "start", "ends": "end", "scores": "score"}
        columns = zip(*(python_values(outputs[name]) for name in names), strict=True)
        entities = [dict(zip(names.values(), values, strict=True)) for values in columns]
        return {"entities": [entity for entity in entities if entity["start"] >= 0]}

    def open_values(self, signature: str, samples: Tensors, outputs: Tensors, logit_error: float) -> Tensors:
        """Returns all entities and tags of texts with a word whose two most probable classes are tied."""
        depend = [name for name in ("entities", "types", "starts", "ends", "scores", "tags") if name in outputs]
        if not depend or not len(outputs["entities"]):
            return {}
        text_words = words.split(tf.constant(samples[TEXT]), at_spaces_only=signature == WORDS_SIGNATURE)
        tied = is_tie(self._probabilities(text_words).numpy(), logit_error)
        text_of_word = np.repeat(np.arange(len(samples[TEXT])), np.diff(text_words.row_splits.numpy()))
        tied_words = np.bincount(text_of_word, weights=tied, minlength=len(samples[TEXT]))
        return dict.fromkeys(depend, (tied_words > 0)[:, np.newaxis])

    def answer_ids(self, *ids: tf.Tensor) -> Outputs:
        """Returns the logits of all tokens [B, S, C]."""
        return {"logits": self.run(self.checked(*ids))}

    def _answer_words(self, text: tf.Tensor) -> Outputs:
        (text,) = checked_texts({TEXT: text})
        tagged = self._tagged(words.split(text, at_spaces_only=True))
        of_type = tf.gather(tf.constant(self._types), tagged.classes)
        columns = {
            "words": tagged.words.strings,
            "tags": tf.where(tagged.marks.inside, letters(tagged.marks, self._scheme) + "-" + of_type, OUTSIDE),
            "probabilities": tagged.probabilities,
        }
        splits = tagged.words.row_splits
        return self._entities(text, tagged) | {name: _by_text(values, splits) for name, values in columns.items()}

    def _tagged(self, text_words: words.TextWords) -> _Tagged:
        """Classifies words; entities begin by the rules of conlleval, which cover any sequence of tags."""
        probabilities = self._probabilities(text_words)
        classes = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
        is_first = words.marks(text_words.row_splits[:-1], text_words.row_splits[-1])
        return _Tagged(
            text_words, classes, tf.reduce_max(probabilities, axis=-1), marked(classes, self._names, is_first)
        )

    def _probabilities(self, text_words: words.TextWords) -> tf.Tensor:
        """Returns the class probabilities of words, (W, C), from the first piece of each word."""
        capacity = self.max_sequence_length - 2
        pieces = self.tokenizer.ids(text_words.strings)[:, :capacity]
        # A word that is empty after normalization becomes [UNK].
        missing = tf.cast(pieces.row_lengths() == 0, tf.int64)
        unknown = tf.fill(tf.reduce_sum(missing)[tf.newaxis], self.vocabulary.unk_id)
        of_missing = tf.RaggedTensor.from_row_lengths(unknown, missing)
        pieces = tf.concat([pieces, of_missing], axis=1)
        offsets = pieces.row_splits
        rows = rows_of_words(offsets, text_words.row_splits, capacity, TEXT)
        logits = in_parts(self.run, self._rows(pieces, offsets, rows), 3, ROWS_AT_ONCE)
        of_word = rows.of_word
        first = tf.gather(offsets, tf.gather(rows.starts, of_word))
        places = 1 + offsets[:-1] - first
        return tf.nn.softmax(tf.gather_nd(logits, tf.stack([of_word, places], axis=-1)))

    def _rows(self, pieces: tf.RaggedTensor, offsets: tf.Tensor, rows: WordRows) -> Outputs:
        """Returns the rows `[CLS] words [SEP]` as the model's inputs."""
        begins = tf.gather(offsets, rows.starts)
        held = sliced(pieces.values, begins, tf.gather(offsets, rows.ends) - begins)
        one = tf.ones_like(begins, tf.int32)[:, tf.newaxis]
        token_ids = tf.concat([one * self.vocabulary.cls_id, held, one * self.vocabulary.sep_id], axis=1)
        padding_mask = tf.ones_like(token_ids).to_tensor()
        return padded_rows(
            {
                TOKEN_IDS: token_ids.to_tensor(self.vocabulary.pad_id),
                SEGMENT_IDS: tf.zeros_like(padding_mask),
                PADDING_MASK: padding_mask,
            },
            self.vocabulary,
            self.max_sequence_length,
        )

    def _entities(self, text: tf.Tensor, tagged: _Tagged) -> Outputs:
        """Returns the entity outputs, padded to the largest number of entities."""
        first = tf.where(tagged.marks.begins)[:, 0]
        number = tf.cumsum(tf.cast(tagged.marks.begins, tf.int32)) - 1
        members = tf.where(tagged.marks.inside)[:, 0]
        entity, count = tf.gather(number, members), tf.size(first)
        last = tf.math.unsorted_segment_max(members, entity, count)
        starts, ends = tf.gather(tagged.words.starts, first), tf.gather(tagged.words.limits, last)
        row = tf.searchsorted(tagged.words.row_splits, first, side="right") - 1
        splits = tf.searchsorted(first, tagged.words.row_splits, out_type=tf.int64)
        columns = {
            "entities": _substrings(text, row, starts, ends),
            "types": tf.gather(tf.constant(self._types), tf.gather(tagged.classes, first)),
            "scores": tf.math.unsorted_segment_mean(tf.gather(tagged.probabilities, members), entity, count),
            "starts": starts,
            "ends": ends,
        }
        return {name: _by_text(values, splits) for name, values in columns.items()}


def _by_text(values: tf.Tensor, splits: tf.Tensor) -> tf.Tensor:
    """Returns flat values as a matrix with one row for each text, padded with "", 0.0 or -1."""
    filler = -1 if values.dtype == tf.int32 else None
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False).to_tensor(filler)


def _substrings(text: tf.Tensor, row: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Returns the characters `starts` to `ends` of the texts numbered `row`, (E,)."""
    chars = tf.strings.unicode_decode(text, "UTF-8")
    begins = tf.gather(chars.row_starts(), row) + tf.cast(starts, tf.int64)
    return tf.strings.unicode_encode(sliced(chars.values, begins, tf.cast(ends - starts, tf.int64)), "UTF-8")

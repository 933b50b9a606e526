"""The BERT tokenizer: the same ids from Python, from tf.data and from a served graph, those of the original."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from bert_tf.text import normalization, offsets
from bert_tf.text.vocabulary import CONTINUATION, UNK, Vocabulary

# Words of more characters are unknown (the original's `max_input_chars_per_word`).
MAX_WORD_CHARS = 200

# Printable ASCII needs no table: lower-casing and splitting is all that the algorithm does with it.
_PLAIN_TEXT = r"[ -~\t\n\r]*"

# What one graph call gets from Python: few enough bytes that the work of a call stays within some 100 MB.
_BATCH_TEXTS = 2048
_BATCH_BYTES = 1 << 20

_SURROGATES = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")


class RaggedIds(NamedTuple):
    """The ids of n texts: text i has `values[row_splits[i]:row_splits[i + 1]]`.

    Args:
        values: int32 [T].
        row_splits: int64 [n + 1].
    """

    values: np.ndarray
    row_splits: np.ndarray


class RaggedWords(NamedTuple):
    """The normalized words of n texts: text i has `values[row_splits[i]:row_splits[i + 1]]`.

    Args:
        values: [W] of dtype object, each word as UTF-8 `bytes`.
        row_splits: int64 [n + 1].
    """

    values: np.ndarray
    row_splits: np.ndarray


class Pieces(NamedTuple):
    """The word pieces of n texts with where they come from.

    Args:
        ids: ragged (n, None) int32.
        starts: ragged (n, None) int32, the character of the text that the piece begins with.
        limits: ragged (n, None) int32, the character after the piece's last one and its accents.
    """

    ids: tf.RaggedTensor
    starts: tf.RaggedTensor
    limits: tf.RaggedTensor


class _WordPieces(NamedTuple):
    """The two compiled forms of one vocabulary: for plain ASCII text, and for words that are already split."""

    plain: tf_text.FastWordpieceTokenizer
    words: tf_text.FastWordpieceTokenizer


_compiled: dict[str, _WordPieces] = {}


def _compile(vocabulary: Vocabulary) -> _WordPieces:
    """Returns the compiled vocabulary; compiling takes about a second, so it is done once in a process."""
    if vocabulary.fingerprint not in _compiled:
        with tf.init_scope(), tf.device("CPU:0"):
            make = functools.partial(tf_text.FastWordpieceTokenizer, list(vocabulary.tokens), token_out_type=tf.int32)
            _compiled[vocabulary.fingerprint] = _WordPieces(
                plain=make(max_bytes_per_word=MAX_WORD_CHARS),
                # A character has at most four bytes, so the rule on characters alone decides.
                words=make(max_bytes_per_word=4 * MAX_WORD_CHARS, no_pretokenization=True),
            )
    return _compiled[vocabulary.fingerprint]


class BertTokenizer:
    """Splits text into the word pieces of a vocabulary exactly as the original BERT does.

    All work is one set of TensorFlow operations: `ids` and `pieces` build them into a graph, the other
    methods call that graph in batches. Use it with many texts a call; one by one is 10 to 30 times slower.
    The exceptions to exactness stand in `bert_tf.text.normalization`.

    Args:
        vocabulary: the word pieces.
        lowercase: whether to lower-case and to strip accents (the `uncased` models).
    """

    def __init__(self, vocabulary: Vocabulary, lowercase: bool = True):
        self.vocabulary = vocabulary
        self.lowercase = lowercase
        self._word_pieces = _compile(vocabulary)
        signature = [tf.TensorSpec([None], tf.string)]
        self._ids_graph = tf.function(self.ids, input_signature=signature, autograph=False)
        self._pieces_graph = tf.function(self.pieces, input_signature=signature, autograph=False)
        self._words_graph = tf.function(self._normalized, input_signature=signature, autograph=False)

    def ids(self, texts: tf.Tensor, keep_mask_token: bool = False) -> tf.RaggedTensor:
        """Tokenizes inside a graph.

        Args:
            texts: (n,) string, UTF-8; bytes that are not are dropped.
            keep_mask_token: whether a literal `[MASK]` becomes the mask id; the original splits it.

        Returns:
            ragged (n, None) int32.

        Raises:
            ValueError: for texts known to be of another rank; `tf.errors.InvalidArgumentError` when that shows
                only while the graph runs.
        """
        # tensorflow-text kills the process on any other rank.
        texts = tf.ensure_shape(texts, [None])
        with tf.device("CPU:0"):
            if keep_mask_token:
                texts = normalization.mark_masks(texts)
            return self._pieces(texts, masks_marked=keep_mask_token).ids

    def pieces(self, texts: tf.Tensor) -> Pieces:
        """Tokenizes inside a graph, with offsets in characters of the texts.

        Args:
            texts: (n,) string, UTF-8; a byte sequence that is not counts as the one or more U+FFFD that
                `tf.strings.unicode_decode` makes of it.

        Returns:
            The pieces. A word that is `[UNK]` has the place of the whole word.

        Raises:
            ValueError: as `ids`.
        """
        texts = tf.ensure_shape(texts, [None])
        with tf.device("CPU:0"):
            return self._pieces(texts, masks_marked=False)

    def tokenize(self, texts: Sequence[str]) -> RaggedIds:
        """Tokenizes in Python.

        Args:
            texts: any number of texts.

        Returns:
            Their ids.

        Raises:
            ValueError: when `texts` is a string itself or holds anything else.
        """
        batches = [self._ids_graph(batch) for batch in _batches(texts)]
        return RaggedIds(_joined([batch.values for batch in batches], np.int32), _row_splits(batches))

    def tokenize_with_offsets(self, texts: Sequence[str]) -> tuple[RaggedIds, np.ndarray, np.ndarray]:
        """Tokenizes in Python, with where in its text each piece comes from.

        Args:
            texts: any number of texts.

        Returns:
            The ids, then `starts` and `limits`, int32 [T]: a piece comes from `text[start:limit]`, which
            includes the accents that were stripped from its end.

        Raises:
            ValueError: as `tokenize`.
        """
        batches = [self._pieces_graph(batch) for batch in _batches(texts)]
        values = [_joined([part.values for part in parts], np.int32) for parts in zip(*batches, strict=True)]
        ids, starts, limits = values or [_joined([], np.int32)] * 3
        return RaggedIds(ids, _row_splits([batch.ids for batch in batches])), starts, limits

    def words(self, texts: Sequence[str]) -> RaggedWords:
        """Normalizes and splits in Python, without looking words up: what a vocabulary is learned from.

        Args:
            texts: any number of texts.

        Returns:
            Their words.

        Raises:
            ValueError: as `tokenize`.
        """
        batches = [self._words_graph(batch) for batch in _batches(texts)]
        return RaggedWords(_joined([batch.values for batch in batches], object), _row_splits(batches))

    def tokens(self, ids: Sequence[int] | np.ndarray) -> list[str]:
        """Returns the word pieces of ids. Raises ValueError for an id outside the vocabulary."""
        pieces = np.asarray(ids, np.int64).tolist()
        for piece in pieces:
            if not 0 <= piece < len(self.vocabulary):
                raise ValueError(f"ids must be in [0, {len(self.vocabulary)}). Received: {piece}")
        return [self.vocabulary.tokens[piece] for piece in pieces]

    def detokenize(self, ids: Sequence[int] | np.ndarray) -> str:
        """Returns the words of ids with single spaces between; special tokens are words as any other."""
        return " ".join(self.tokens(ids)).replace(f" {CONTINUATION}", "")

    def _pieces(self, texts: tf.Tensor, masks_marked: bool) -> Pieces:
        is_plain = tf.strings.regex_full_match(texts, _PLAIN_TEXT)
        plain_rows, other_rows = (tf.where(rows)[:, 0] for rows in (is_plain, ~is_plain))
        plain = self._plain_pieces(tf.gather(texts, plain_rows))
        others = self._other_pieces(tf.gather(texts, other_rows), masks_marked)
        order = tf.argsort(tf.concat([plain_rows, other_rows], 0), stable=True)
        return Pieces(*(tf.gather(tf.concat(parts, 0), order) for parts in zip(plain, others, strict=True)))

    def _plain_pieces(self, texts: tf.Tensor) -> Pieces:
        if self.lowercase:
            texts = tf.strings.lower(texts)
        ids, starts, limits = self._word_pieces.plain.tokenize_with_offsets(texts)
        return Pieces(ids, tf.cast(starts, tf.int32), tf.cast(limits, tf.int32))

    def _other_pieces(self, texts: tf.Tensor, masks_marked: bool) -> Pieces:
        words = normalization.words(texts, self.lowercase, masks_marked)
        word_chars = words.char_splits[1:] - words.char_splits[:-1]
        strings = tf.where(word_chars > MAX_WORD_CHARS, UNK, words.strings)
        ids, starts, ends = self._word_pieces.words.tokenize_with_offsets(strings)
        whole_word_ids = (self.vocabulary.unk_id, self.vocabulary.mask_id)
        starts, limits = offsets.in_texts(words, ids, starts, ends, whole_word_ids)
        row_splits = tf.gather(ids.row_splits, words.row_splits)
        return Pieces(
            *(
                tf.RaggedTensor.from_row_splits(part, row_splits, validate=False)
                for part in (ids.values, starts, limits)
            )
        )

    def _normalized(self, texts: tf.Tensor) -> tf.RaggedTensor:
        with tf.device("CPU:0"):
            words = normalization.words(texts, self.lowercase)
            return tf.RaggedTensor.from_row_splits(words.strings, words.row_splits, validate=False)


def _batches(texts: Sequence[str]) -> Iterator[tf.Tensor]:
    """Yields the texts in UTF-8, as string tensors of bounded size."""
    if isinstance(texts, str | bytes):
        raise ValueError(f"`texts` must be a sequence of strings, not one. Received: {texts!r}")
    encoded = [_encoded(text) for text in texts]
    ends = np.cumsum([0] + [len(text) for text in encoded])
    first = 0
    while first < len(encoded):
        within = int(np.searchsorted(ends, ends[first] + _BATCH_BYTES, side="right")) - 1
        last = max(first + 1, min(first + _BATCH_TEXTS, within))
        yield tf.constant(encoded[first:last], tf.string)
        first = last


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        # One dropped character for another, so that offsets stay.
        return text.translate(_SURROGATES).encode("utf-8")
    except AttributeError:
        raise ValueError(f"`texts` must hold strings only. Received: {text!r}") from None


def _joined(parts: list[tf.Tensor], dtype: type) -> np.ndarray:
    return np.concatenate([np.empty(0, dtype), *(part.numpy() for part in parts)])


def _row_splits(batches: list[tf.RaggedTensor]) -> np.ndarray:
    lengths = [np.diff(batch.row_splits.numpy()) for batch in batches]
    return np.cumsum(np.concatenate([np.zeros(1, np.int64), *lengths]))

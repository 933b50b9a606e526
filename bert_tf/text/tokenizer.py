"""The BERT tokenizer: the ids of the original, in Python, in tf.data and in a served graph."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from bert_tf.config import ConfigError
from bert_tf.text import normalization, offsets
from bert_tf.text.vocabulary import CONTINUATION, MAX_WORD_CHARS, UNK, Vocabulary

# Printable ASCII text does not need the table: it is only lower-cased and split.
_PLAIN_TEXT = r"[ -~\t\n\r]*"

# Maximum input of one graph call from Python, so that a call needs at most about 100 MB.
_BATCH_TEXTS = 2048
_BATCH_BYTES = 1 << 20

_SURROGATES = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")


@dataclass(frozen=True, eq=False)
class _Ragged(Sequence[np.ndarray]):
    values: np.ndarray
    row_splits: np.ndarray

    def __len__(self) -> int:
        return len(self.row_splits) - 1

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        begin, end = self.row_splits[:-1][number], self.row_splits[1:][number]
        return self.values[begin:end]


class RaggedIds(_Ragged):
    """The ids of n texts: a sequence of one array for each text.

    The ids of text i are `values[row_splits[i]:row_splits[i + 1]]`.

    Args:
        values: int32 [T], all ids.
        row_splits: int64 [n + 1].

    Example:
        >>> vocabulary = bert_tf.Vocabulary(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "film", "##s"))
        >>> ids = bert_tf.BertTokenizer(vocabulary).tokenize(["a film", "films"])
        >>> len(ids), [text.tolist() for text in ids]
        (2, [[5, 6], [6, 7]])
        >>> ids.values.tolist(), ids.row_splits.tolist()
        ([5, 6, 6, 7], [0, 2, 4])
    """

    @property
    def tensor(self) -> tf.RaggedTensor:
        """The ids as a ragged tensor (n, None)."""
        return tf.RaggedTensor.from_row_splits(self.values, self.row_splits, validate=False)


class RaggedWords(_Ragged):
    """The normalized words of n texts: a sequence of one array for each text.

    The words of text i are `values[row_splits[i]:row_splits[i + 1]]`.

    Args:
        values: object [W], each word as UTF-8 `bytes`.
        row_splits: int64 [n + 1].

    Example:
        >>> vocabulary = bert_tf.Vocabulary(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "film"))
        >>> words = bert_tf.BertTokenizer(vocabulary).words(["It's Über-long."])
        >>> [word.decode() for word in words.values]
        ['it', "'", 's', 'uber', '-', 'long', '.']
    """


class Pieces(NamedTuple):
    """The word pieces of n texts with their character offsets.

    Args:
        ids: ragged (n, None) int32.
        starts: ragged (n, None) int32, position of the first character of each piece in the text.
        limits: ragged (n, None) int32, position after the last character of each piece and its accents.

    Example:
        >>> vocabulary = bert_tf.Vocabulary(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "film", "##s"))
        >>> pieces = bert_tf.BertTokenizer(vocabulary).pieces(["Two films"])
        >>> pieces.ids.to_list(), pieces.starts.to_list(), pieces.limits.to_list()
        ([[1, 5, 6]], [[0, 4, 8]], [[3, 8, 9]])
    """

    ids: tf.RaggedTensor
    starts: tf.RaggedTensor
    limits: tf.RaggedTensor


class _WordPieces(NamedTuple):
    """A compiled vocabulary in two forms: for plain ASCII text and for words that are already split."""

    plain: tf_text.FastWordpieceTokenizer
    words: tf_text.FastWordpieceTokenizer


_compiled: dict[str, _WordPieces] = {}


def _compile(vocabulary: Vocabulary) -> _WordPieces:
    """Compiles a vocabulary, which takes about a second; cached for the process."""
    if vocabulary.fingerprint not in _compiled:
        with tf.init_scope(), tf.device("CPU:0"):
            make = functools.partial(tf_text.FastWordpieceTokenizer, list(vocabulary.matched), token_out_type=tf.int32)
            _compiled[vocabulary.fingerprint] = _WordPieces(
                plain=make(max_bytes_per_word=MAX_WORD_CHARS),
                # A character has at most four bytes, so only the limit on characters applies.
                words=make(max_bytes_per_word=4 * MAX_WORD_CHARS, no_pretokenization=True),
            )
    return _compiled[vocabulary.fingerprint]


class TextTokenizer(ABC):
    """The methods of all tokenizers; `bert_tf.tokenizer_of` returns the one of a vocabulary.

    Args:
        vocabulary: tokens.
        lowercase: whether text is lower-cased.

    Example:
        >>> vocabulary = bert_tf.Vocabulary(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "film", "##s"))
        >>> tokenizer = bert_tf.tokenizer_of(vocabulary, lowercase=True)
        >>> isinstance(tokenizer, bert_tf.text.tokenizer.TextTokenizer), tokenizer(["Films"]).to_list()
        (True, [[5, 6]])
    """

    in_graph: ClassVar[bool] = True
    """True if a SavedModel can hold the tokenizer."""

    def __init__(self, vocabulary: Vocabulary, lowercase: bool) -> None:
        self.vocabulary = vocabulary
        self.lowercase = lowercase

    @abstractmethod
    def __call__(self, texts: Sequence[str] | tf.Tensor) -> tf.RaggedTensor:
        """Tokenizes texts, eagerly or inside a graph; returns ragged (n, None) int32 ids."""

    @abstractmethod
    def ids(self, texts: tf.Tensor, keep_mask_token: bool = False) -> tf.RaggedTensor:
        """Tokenizes string tensors, (n,); a literal `[MASK]` becomes the mask id with `keep_mask_token`."""

    @abstractmethod
    def tokenize(self, texts: Sequence[str]) -> RaggedIds:
        """Tokenizes texts in Python."""

    @abstractmethod
    def tokenize_with_offsets(self, texts: Sequence[str]) -> tuple[RaggedIds, np.ndarray, np.ndarray]:
        """Tokenizes texts in Python and returns the characters of each token: ids, `starts` and `limits`."""

    @abstractmethod
    def pieces(self, texts: tf.Tensor) -> Pieces:
        """Tokenizes string tensors, (n,), with the characters of each token."""

    def tokenize_words(self, words: Sequence[str]) -> RaggedIds:
        """Tokenizes words of a text in Python, without what stands around them."""
        return self.tokenize(words)

    def tokens(self, ids: Sequence[int] | np.ndarray) -> list[str]:
        """Converts ids to tokens. Raises ValueError for an id outside the vocabulary."""
        return self.vocabulary.tokens_of(ids)

    @abstractmethod
    def detokenize(self, ids: Sequence[int] | np.ndarray) -> str:
        """Converts ids to text."""

    def get_config(self) -> dict[str, Any]:
        """Returns the argument of `byte_pairs.tokenizer_from_config`."""
        return {"vocabulary": list(self.vocabulary.tokens), "lowercase": self.lowercase}


class BertTokenizer(TextTokenizer):
    """Splits text into the word pieces of a vocabulary, identically to the original BERT.

    Tokenization consists of TensorFlow operations: `ids` and `pieces` add them to a graph, the other methods call that
    graph in batches. Pass many texts per call; single texts are 10 to 30 times slower. The only difference from the
    original is documented in `bert_tf.text.normalization`.

    Args:
        vocabulary: word pieces.
        lowercase: whether to lower-case and strip accents (`uncased` models).

    Example:
        >>> vocabulary = bert_tf.Vocabulary(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "film", "##s"))
        >>> tokenizer = bert_tf.BertTokenizer(vocabulary)
        >>> tokenizer(["A film", "Films!"]).to_list()
        [[5, 6], [6, 7, 1]]
        >>> ids = tokenizer.tokenize(["A film", "Films!"])
        >>> tokenizer.tokens(ids.values)
        ['a', 'film', 'film', '##s', '[UNK]']
        >>> tokenizer.detokenize(ids.values[2:4])
        'films'
    """

    def __init__(self, vocabulary: Vocabulary, lowercase: bool = True):
        if vocabulary.file_name != Vocabulary.file_name:
            raise ConfigError(
                f"`vocabulary` must hold word pieces. Received: that of a {vocabulary.file_name}. Use "
                "`bert_tf.tokenizer_of(vocabulary, lowercase)`, which returns the tokenizer of either."
            )
        super().__init__(vocabulary, lowercase)
        self._word_pieces = _compile(vocabulary)
        signature = [tf.TensorSpec([None], tf.string)]
        self._ids_graph = tf.function(self.ids, input_signature=signature, autograph=False)
        self._pieces_graph = tf.function(self.pieces, input_signature=signature, autograph=False)
        self._words_graph = tf.function(self._normalized, input_signature=signature, autograph=False)

    def __call__(self, texts: Sequence[str] | tf.Tensor) -> tf.RaggedTensor:
        """Tokenizes texts, eagerly or inside a graph.

        Args:
            texts: a list or array of strings, or a string tensor (n,).

        Returns:
            Ragged (n, None) int32 ids.

        Raises:
            ValueError: if `texts` is a single string or contains anything but strings.
        """
        if not tf.is_tensor(texts):
            texts = string_tensor(texts)
        return self._ids_graph(texts) if tf.executing_eagerly() else self.ids(texts)

    def ids(self, texts: tf.Tensor, keep_mask_token: bool = False) -> tf.RaggedTensor:
        """Tokenizes texts inside a graph.

        Args:
            texts: (n,) string, UTF-8; invalid bytes are dropped.
            keep_mask_token: whether a literal `[MASK]` becomes the mask id; the original splits it.

        Returns:
            Ragged (n, None) int32 ids.

        Raises:
            ValueError: if `texts` has another static rank.
            tf.errors.InvalidArgumentError: if `texts` has another rank at run time.
        """
        # tensorflow-text aborts the process for any other rank.
        texts = tf.ensure_shape(texts, [None])
        with tf.device("CPU:0"):
            if keep_mask_token:
                texts = normalization.mark_masks(texts)
            return self._pieces(texts, masks_marked=keep_mask_token).ids

    def pieces(self, texts: tf.Tensor) -> Pieces:
        """Tokenizes texts inside a graph and returns character offsets.

        Args:
            texts: (n,) string, UTF-8; an invalid byte sequence counts as the U+FFFD characters that
                `tf.strings.unicode_decode` replaces it with.

        Returns:
            The pieces. `[UNK]` has the offsets of the whole word.

        Raises:
            ValueError: if `texts` has another static rank.
        """
        texts = tf.ensure_shape(texts, [None])
        with tf.device("CPU:0"):
            return self._pieces(texts, masks_marked=False)

    def tokenize(self, texts: Sequence[str]) -> RaggedIds:
        """Tokenizes texts in Python.

        Args:
            texts: any number of texts.

        Returns:
            The ids.

        Raises:
            ValueError: if `texts` is a single string or contains anything but strings.
        """
        batches = [self._ids_graph(batch) for batch in _batches(texts)]
        return RaggedIds(_joined([batch.values for batch in batches], np.int32), _row_splits(batches))

    def tokenize_with_offsets(self, texts: Sequence[str]) -> tuple[RaggedIds, np.ndarray, np.ndarray]:
        """Tokenizes texts in Python and returns character offsets.

        Args:
            texts: any number of texts.

        Returns:
            The ids, `starts` and `limits`, the latter two int32 [T]. A piece comes from `text[start:limit]`, including
            accents stripped from its end.

        Raises:
            ValueError: if `texts` is a single string or contains anything but strings.
        """
        batches = [self._pieces_graph(batch) for batch in _batches(texts)]
        values = [_joined([part.values for part in parts], np.int32) for parts in zip(*batches, strict=True)]
        ids, starts, limits = values or [_joined([], np.int32)] * 3
        return RaggedIds(ids, _row_splits([batch.ids for batch in batches])), starts, limits

    def words(self, texts: Sequence[str]) -> RaggedWords:
        """Normalizes texts and splits them into words in Python, for training a vocabulary.

        Args:
            texts: any number of texts.

        Returns:
            The words.

        Raises:
            ValueError: if `texts` is a single string or contains anything but strings.
        """
        batches = [self._words_graph(batch) for batch in _batches(texts)]
        return RaggedWords(_joined([batch.values for batch in batches], object), _row_splits(batches))

    def detokenize(self, ids: Sequence[int] | np.ndarray) -> str:
        """Converts ids to text, with single spaces between words; special tokens count as words."""
        return " ".join(self.tokens(ids)).replace(f" {CONTINUATION}", "")

    def _pieces(self, texts: tf.Tensor, masks_marked: bool) -> Pieces:
        is_plain = tf.strings.regex_full_match(texts, _PLAIN_TEXT)
        plain_rows, other_rows = (tf.where(rows)[:, 0] for rows in (is_plain, ~is_plain))
        plain = self._plain_pieces(tf.gather(texts, plain_rows))
        non_plain = self._other_pieces(tf.gather(texts, other_rows), masks_marked)
        order = tf.argsort(tf.concat([plain_rows, other_rows], 0), stable=True)
        return Pieces(*(tf.gather(tf.concat(parts, 0), order) for parts in zip(plain, non_plain, strict=True)))

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


def string_tensor(texts: Sequence[str]) -> tf.Tensor:
    """Returns texts as a UTF-8 string tensor, (n,). Raises ValueError for anything but a sequence of strings."""
    return tf.constant(_all_encoded(texts), tf.string, [len(texts)])


def _batches(texts: Sequence[str]) -> Iterator[tf.Tensor]:
    """Yields the texts as UTF-8 string tensors of bounded size."""
    encoded = _all_encoded(texts)
    ends = np.cumsum([0] + [len(text) for text in encoded])
    first = 0
    while first < len(encoded):
        within = int(np.searchsorted(ends, ends[first] + _BATCH_BYTES, side="right")) - 1
        last = max(first + 1, min(first + _BATCH_TEXTS, within))
        yield tf.constant(encoded[first:last], tf.string)
        first = last


def checked_texts(texts: Sequence[str]) -> list[str]:
    """Returns texts without lone surrogates. Raises ValueError for anything but a sequence of strings."""
    return [text.decode("utf-8") for text in _all_encoded(texts)]


def _all_encoded(texts: Sequence[str]) -> list[bytes]:
    if isinstance(texts, str | bytes):
        raise ValueError(f"`texts` must be a sequence of strings, not a single string. Received: {texts!r}")
    return [_encoded(text) for text in texts]


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        # Replaces one dropped character by another, so that offsets do not change.
        return text.translate(_SURROGATES).encode("utf-8")
    except AttributeError:
        raise ValueError(f"`texts` must hold strings only. Received: {text!r}") from None


def _joined(parts: list[tf.Tensor], dtype: type) -> np.ndarray:
    return np.concatenate([np.empty(0, dtype), *(part.numpy() for part in parts)])


def _row_splits(batches: list[tf.RaggedTensor]) -> np.ndarray:
    lengths = [np.diff(batch.row_splits.numpy()) for batch in batches]
    return np.cumsum(np.concatenate([np.zeros(1, np.int64), *lengths]))

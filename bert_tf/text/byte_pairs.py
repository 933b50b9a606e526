"""Tokenizers of a byte-level BPE.

The library `tokenizers` splits the text, in Python: no operation of TensorFlow computes it, so an exported model takes
ids. docs/bodies.md says why.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tokenizers import Tokenizer

from bert_tf.text.byte_pair_vocabulary import BytePairVocabulary, byte_pair_vocabulary
from bert_tf.text.tokenizer import BertTokenizer, Pieces, RaggedIds, TextTokenizer, checked_texts, string_tensor
from bert_tf.text.vocabulary import MASK, SPECIAL_TOKENS, Vocabulary


class BytePairTokenizer(TextTokenizer):
    """Splits text into the tokens of a byte-level BPE, as the library `tokenizers` does.

    Special tokens are not added, and those that stand in a text, such as `[SEP]`, are text.

    Args:
        vocabulary: tokens and tokenizer.

    Example:
        >>> from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
        >>> trained = Tokenizer(models.BPE())
        >>> trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        >>> trained.decoder = decoders.ByteLevel()
        >>> special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
        >>> trainer = trainers.BpeTrainer(vocab_size=30, special_tokens=special)
        >>> trained.train_from_iterator(["a good film"] * 9, trainer)
        >>> from bert_tf.text.byte_pair_vocabulary import byte_pair_vocabulary
        >>> tokenizer = bert_tf.tokenizer_of(byte_pair_vocabulary(trained.to_str()), lowercase=False)
        >>> tokenizer.tokens(tokenizer.tokenize(["a film"]).values)
        ['a', ' film']
    """

    vocabulary: BytePairVocabulary
    in_graph = False

    def __init__(self, vocabulary: BytePairVocabulary) -> None:
        super().__init__(vocabulary, lowercase=False)

    @functools.cached_property
    def _plain(self) -> Tokenizer:
        return _as_text(json.loads(self.vocabulary.tokenizer_json))

    @functools.cached_property
    def _with_masks(self) -> Tokenizer:
        return _as_text(json.loads(self.vocabulary.tokenizer_json), keeps=MASK)

    def __call__(self, texts: Sequence[str] | tf.Tensor) -> tf.RaggedTensor:
        """Tokenizes texts; returns ragged (n, None) int32 ids. Raises ValueError for anything but strings."""
        return self.ids(texts if tf.is_tensor(texts) else string_tensor(texts))

    def ids(self, texts: tf.Tensor, keep_mask_token: bool = False) -> tf.RaggedTensor:
        """Tokenizes texts; in a graph, through a call of Python, which no SavedModel holds.

        Args:
            texts: (n,) string, UTF-8; invalid bytes become U+FFFD.
            keep_mask_token: whether a literal `[MASK]` becomes the mask id.

        Returns:
            Ragged (n, None) int32 ids.
        """

        def tokenized(given: list[str]) -> tuple[np.ndarray, ...]:
            found = self._tokenized(given, keep_mask_token)
            return found.values, found.row_splits

        return _in_python(tokenized, texts, 1)[0]

    def pieces(self, texts: tf.Tensor) -> Pieces:
        """Tokenizes texts as `ids`, with the characters of each token as `tokenize_with_offsets`."""

        def tokenized(given: list[str]) -> tuple[np.ndarray, ...]:
            found, starts, limits = self.tokenize_with_offsets(given)
            return found.values, starts, limits, found.row_splits

        return Pieces(*_in_python(tokenized, texts, 3))

    def tokenize(self, texts: Sequence[str]) -> RaggedIds:
        """Tokenizes texts in Python. Raises ValueError for anything but a sequence of strings."""
        return self._tokenized(checked_texts(texts), keep_mask_token=False)

    def tokenize_words(self, words: Sequence[str]) -> RaggedIds:
        """Tokenizes words of texts, each as after a space."""
        return self.tokenize([f" {word}" for word in words])

    def tokenize_with_offsets(self, texts: Sequence[str]) -> tuple[RaggedIds, np.ndarray, np.ndarray]:
        """Tokenizes texts in Python and returns character offsets.

        Args:
            texts: any number of texts.

        Returns:
            The ids, `starts` and `limits`, the latter two int32 [T]. A token comes from `text[start:limit]`, without
            the blanks around it and with the accents after it that the tokenizer joins to its last character. A token
            of blanks has no characters.
        """
        texts = checked_texts(texts)
        encodings = self._plain.encode_batch(texts, add_special_tokens=False)
        spans = [
            span for text, encoding in zip(texts, encodings, strict=True) for span in _visible(text, encoding.offsets)
        ]
        starts, limits = np.array(spans, np.int32).reshape(-1, 2).T
        return _ragged(encodings), starts, limits

    def tokens(self, ids: Sequence[int] | np.ndarray) -> list[str]:
        """Converts ids to tokens as they look in a text. Raises ValueError for an id outside the vocabulary."""
        decode = self._plain.decoder.decode
        return [token if token in SPECIAL_TOKENS else decode([token]) for token in super().tokens(ids)]

    def detokenize(self, ids: Sequence[int] | np.ndarray) -> str:
        """Converts ids to text; special tokens are written out."""
        self.vocabulary.tokens_of(ids)
        return self._plain.decode([int(token) for token in ids], skip_special_tokens=False)

    def get_config(self) -> dict[str, Any]:
        """Returns the argument of `tokenizer_from_config`."""
        return {"tokenizer_json": self.vocabulary.tokenizer_json, "size": len(self.vocabulary)}

    def _tokenized(self, texts: list[str], keep_mask_token: bool) -> RaggedIds:
        tokenizer = self._with_masks if keep_mask_token else self._plain
        return _ragged(tokenizer.encode_batch(texts, add_special_tokens=False))


def tokenizer_of(vocabulary: Vocabulary, lowercase: bool) -> TextTokenizer:
    """Returns the tokenizer of a vocabulary.

    Args:
        vocabulary: word pieces, or the tokens of a byte-level BPE.
        lowercase: whether word pieces are those of lower-cased text.

    Returns:
        A `BertTokenizer`, or a `BytePairTokenizer`.

    Example:
        >>> preset = bert_tf.load_preset("runs/laptop")  # written by `bert-tf pretrain --output runs/laptop`
        >>> type(bert_tf.tokenizer_of(preset.vocabulary, preset.lowercase)).__name__
        'BertTokenizer'
    """
    if isinstance(vocabulary, BytePairVocabulary):
        return BytePairTokenizer(vocabulary)
    return BertTokenizer(vocabulary, lowercase)


def tokenizer_from_config(config: Mapping[str, Any]) -> TextTokenizer:
    """Returns the tokenizer of `TextTokenizer.get_config`."""
    if "tokenizer_json" in config:
        return BytePairTokenizer(byte_pair_vocabulary(config["tokenizer_json"]).padded(config["size"]))
    return BertTokenizer(Vocabulary(tuple(config["vocabulary"])), config["lowercase"])


def _as_text(settings: dict[str, Any], keeps: str | None = None) -> Tokenizer:
    """Returns a tokenizer for which special tokens in a text are text, all but `keeps`."""
    for token in settings.get("added_tokens") or []:
        known = token["special"] or token["content"] in SPECIAL_TOKENS
        token["special"] = known and token["content"] != keeps
    # Dropout of merges is for training.
    settings["model"]["dropout"] = None
    tokenizer = Tokenizer.from_str(json.dumps(settings))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer


def _visible(text: str, offsets: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the characters of tokens without blanks, and with dropped characters after them."""
    spans, following = [], len(text)
    for number in range(len(offsets) - 1, -1, -1):
        start, limit = offsets[number]
        end = limit
        while end < following and not text[end].isspace():
            end += 1
        inside = text[start:end]
        begin = start + len(inside) - len(inside.lstrip())
        spans.append((begin, max(begin, start + len(inside.rstrip()))))
        if number and offsets[number - 1][1] <= start:
            following = start
    return spans[::-1]


def _in_python(tokenized: Callable[[list[str]], Sequence[np.ndarray]], texts: tf.Tensor, count: int) -> list[Any]:
    """Returns ragged int32 tensors of the arrays, and the row splits at their end, that a function of texts returns."""

    def decoded(values: np.ndarray) -> Sequence[np.ndarray]:
        return tokenized([value.decode("utf-8", "replace") for value in values.tolist()])

    types = [*[tf.int32] * count, tf.int64]
    found = tf.numpy_function(decoded, [tf.ensure_shape(texts, [None])], types)
    *values, splits = (tf.ensure_shape(tensor, [None]) for tensor in found)
    return [tf.RaggedTensor.from_row_splits(each, splits, validate=False) for each in values]


def _ragged(encodings: Sequence[Any]) -> RaggedIds:
    lengths = [len(encoding.ids) for encoding in encodings]
    values = np.fromiter((token for encoding in encodings for token in encoding.ids), np.int32, sum(lengths))
    return RaggedIds(values, np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)]))

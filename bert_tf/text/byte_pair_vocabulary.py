"""Vocabularies of a byte-level BPE, the text of ModernBERT and RoBERTa, stored as a `tokenizer.json`."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from bert_tf.text.vocabulary import CLS, SEP, SPECIAL_TOKENS, Vocabulary


@dataclass(frozen=True)
class BytePairVocabulary(Vocabulary):
    """The tokens of a byte-level BPE in the order of their ids, with the `tokenizer.json` that splits text into them.

    Args:
        tokens: tokens, including all of `SPECIAL_TOKENS`.
        tokenizer_json: content of the `tokenizer.json`.

    Raises:
        ValueError: for a missing special token.

    Example:
        >>> from bert_tf.text.byte_pair_vocabulary import byte_pair_vocabulary
        >>> from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
        >>> trained = Tokenizer(models.BPE())
        >>> trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        >>> trained.decoder = decoders.ByteLevel()
        >>> special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
        >>> trainer = trainers.BpeTrainer(vocab_size=270, special_tokens=special)
        >>> trained.train_from_iterator(["a good film"] * 9, trainer)
        >>> vocabulary = byte_pair_vocabulary(trained.to_str())
        >>> vocabulary.cls_id, vocabulary.tokens[vocabulary.sep_id]
        (1, '[SEP]')
    """

    tokenizer_json: str = ""
    file_name: ClassVar[str] = "tokenizer.json"

    def _check_pieces(self) -> None:
        """Checks nothing: the tokens are those of a tokenizer that works."""

    @functools.cached_property
    def fingerprint(self) -> str:
        """Hexadecimal SHA-256 of the `tokenizer.json`."""
        return hashlib.sha256(self._text().encode("utf-8")).hexdigest()

    def _text(self) -> str:
        return self.tokenizer_json


def is_byte_pairs(settings: Mapping[str, Any]) -> bool:
    """Returns True for the content of a `tokenizer.json` whose model is BPE."""
    model = settings.get("model")
    return isinstance(model, Mapping) and model.get("type") == "BPE"


def byte_pair_vocabulary(tokenizer_json: str, source: str | Path = "tokenizer.json") -> BytePairVocabulary:
    """Returns the vocabulary of a `tokenizer.json`.

    Args:
        tokenizer_json: content of the file.
        source: its path, for messages.

    Raises:
        ValueError: if the file is damaged, is not a byte-level BPE, lacks a special token, or puts others around a
            text.
    """
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(tokenizer_json)
        around = tokenizer.encode(" a ").tokens
    except Exception as error:  # The library raises Exception itself.
        raise ValueError(f"{source}: not a tokenizer that `tokenizers` can use: {error}") from error
    parts = {"model": type(tokenizer.model).__name__, "decoder": type(tokenizer.decoder).__name__}
    settings = json.loads(tokenizer_json)["pre_tokenizer"] or {}
    steps = [step.get("type") for step in settings.get("pretokenizers", [settings])]
    if parts != {"model": "BPE", "decoder": "ByteLevel"} or "ByteLevel" not in steps:
        raise ValueError(
            f"{source}: must be a byte-level BPE, with `model` BPE, `pre_tokenizer` and `decoder` ByteLevel. Received: "
            f"{parts['model']}, {settings.get('type')} and {parts['decoder']}. Models with word pieces have a "
            "vocab.txt, which `bert-tf convert --vocabulary` takes."
        )
    ids = tokenizer.get_vocab(with_added_tokens=True)
    tokens = sorted(ids, key=lambda token: ids[token])
    if holes := [number for number, token in enumerate(tokens) if ids[token] != number]:
        raise ValueError(f"{source}: ids must be 0 to {len(tokens) - 1}. Received: no id {holes[0]}")
    if missing := [token for token in SPECIAL_TOKENS if token not in ids]:
        raise ValueError(
            f"{source}: must hold {', '.join(SPECIAL_TOKENS)}. Received: {len(tokens)} tokens without "
            f"{', '.join(missing)}. Encoders with other special tokens are not supported."
        )
    if len(around) > len(tokenizer.encode(" a ", add_special_tokens=False)) and (around[0], around[-1]) != (CLS, SEP):
        raise ValueError(
            f"{source}: `post_processor` must put {CLS} before a text and {SEP} after it. Received: {around[0]} and "
            f"{around[-1]}"
        )
    return BytePairVocabulary(tuple(tokens), tokenizer_json)


def load_byte_pairs(path: str | Path) -> BytePairVocabulary:
    """Reads the `tokenizer.json` of a byte-level BPE. Raises ValueError as `byte_pair_vocabulary`."""
    try:
        return byte_pair_vocabulary(Path(path).read_bytes().decode("utf-8"), path)
    except OSError as error:
        raise ValueError(f"{path}: a tokenizer must be readable. Received: {error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: must be UTF-8. Received: {error}") from error

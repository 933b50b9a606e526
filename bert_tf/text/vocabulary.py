"""WordPiece vocabularies, stored as `vocab.txt` with one piece per line, in the order of the ids."""

from __future__ import annotations

import codecs
import functools
import hashlib
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from bert_tf.config.files import write_file

logger = logging.getLogger(__name__)
PAD, UNK, CLS, SEP, MASK = SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUATION = "##"
# Text never contains such a piece, because brackets are separate words.
_PADDING = re.compile(r"\[padding(\d+)\]")
# Longer words are unknown (`max_input_chars_per_word` of the original).
MAX_WORD_CHARS = 200


@dataclass(frozen=True)
class Vocabulary:
    """Word pieces in the order of their ids.

    Args:
        tokens: word pieces, including all of `SPECIAL_TOKENS`; pieces that continue a word begin with `##`. As in the
            original, blank and repeated pieces keep their ids: no text has a blank one, and of equal pieces, texts have
            the last.

    Raises:
        ValueError: for a missing special token, or a piece with a line end; the message counts pieces from 1, like
            lines of a file.

    Example:
        >>> vocabulary = bert_tf.Vocabulary(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "film", "##s"))
        >>> len(vocabulary), vocabulary.id_of("film"), vocabulary.mask_id
        (7, 5, 4)
        >>> vocabulary.is_continuation.tolist()
        [False, False, False, False, False, False, True]
    """

    tokens: tuple[str, ...]
    file_name: ClassVar[str] = "vocab.txt"

    def __post_init__(self) -> None:
        self._check_pieces()
        missing = [token for token in SPECIAL_TOKENS if token not in self._ids]
        if missing:
            raise ValueError(
                f"a vocabulary must hold {', '.join(SPECIAL_TOKENS)}. "
                f"Received: {len(self.tokens)} word pieces without {', '.join(missing)}. Use the model's "
                f"{self.file_name}, or learn a vocabulary with `bert-tf vocab`."
            )

    def _check_pieces(self) -> None:
        for line, token in enumerate(self.tokens, start=1):
            if "\n" in token:
                raise ValueError(f"line {line}: a word piece must not hold a line end. Received: {token!r}")

    @property
    def unreachable(self) -> list[int]:
        """The ids of blank pieces, and of pieces that occur again later."""
        return [index for index, token in enumerate(self.tokens) if not token.strip() or self._ids[token] != index]

    @property
    def matched(self) -> tuple[str, ...]:
        """The pieces for a tokenizer: distinct, with stand-ins that no text contains for those that are unreachable."""
        stand_ins = {index: f"[line{index + 1}]" for index in self.unreachable}
        return tuple(stand_ins.get(index, token) for index, token in enumerate(self.tokens))

    def __len__(self) -> int:
        return len(self.tokens)

    @functools.cached_property
    def _ids(self) -> dict[str, int]:
        return {token: index for index, token in enumerate(self.tokens)}

    def id_of(self, token: str) -> int:
        """Returns the id of a piece. Raises ValueError if it is not in the vocabulary."""
        try:
            return self._ids[token]
        except KeyError:
            raise ValueError(f"`token` must be in the vocabulary. Received: {token!r}") from None

    @property
    def pad_id(self) -> int:
        """The id of `[PAD]`."""
        return self.id_of(PAD)

    @property
    def unk_id(self) -> int:
        """The id of `[UNK]`."""
        return self.id_of(UNK)

    @property
    def cls_id(self) -> int:
        """The id of `[CLS]`."""
        return self.id_of(CLS)

    @property
    def sep_id(self) -> int:
        """The id of `[SEP]`."""
        return self.id_of(SEP)

    @property
    def mask_id(self) -> int:
        """The id of `[MASK]`."""
        return self.id_of(MASK)

    @property
    def special_ids(self) -> tuple[int, ...]:
        """The ids of `SPECIAL_TOKENS`, in that order."""
        return tuple(self.id_of(token) for token in SPECIAL_TOKENS)

    @functools.cached_property
    def is_continuation(self) -> np.ndarray:
        """Read-only bool [V], True for pieces that continue a word."""
        flags = np.array([token.startswith(CONTINUATION) for token in self.tokens], np.bool_)
        flags.setflags(write=False)
        return flags

    def tokens_of(self, ids: Sequence[int] | np.ndarray) -> list[str]:
        """Returns the pieces of ids. Raises ValueError for an id outside the vocabulary."""
        pieces = np.asarray(ids, np.int64).tolist()
        for piece in pieces:
            if not 0 <= piece < len(self):
                raise ValueError(f"ids must be in [0, {len(self)}). Received: {piece}")
        return [self.tokens[piece] for piece in pieces]

    def padded(self, size: int) -> Self:
        """Returns the vocabulary with pieces `[paddingN]`, which no text has, up to a size."""
        return replace(self, tokens=(*self.tokens, *(f"[padding{number}]" for number in range(len(self), size))))

    def without_padding(self) -> Self:
        """Returns the vocabulary without the pieces of `padded`."""
        length = len(self)
        while length and (match := _PADDING.fullmatch(self.tokens[length - 1])) and int(match[1]) == length - 1:
            length -= 1
        return self if length == len(self) else replace(self, tokens=self.tokens[:length])

    @functools.cached_property
    def fingerprint(self) -> str:
        """Hexadecimal SHA-256 of the file that `save_vocabulary` writes."""
        return hashlib.sha256(self._text().encode("utf-8")).hexdigest()

    def _text(self) -> str:
        return "\n".join(self.tokens) + "\n"


def load_vocabulary(path: str | Path) -> Vocabulary:
    """Reads a vocabulary file with one word piece per line.

    Args:
        path: UTF-8 file; Windows line ends and a byte order mark are accepted, blanks around a piece are stripped.
            Blank and repeated lines are named in the log.

    Returns:
        The vocabulary.

    Raises:
        ValueError: if the file is missing, empty or not UTF-8, or lacks a special token; the message names the file and
            the line.

    Example:
        >>> vocabulary = bert_tf.Vocabulary(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "film"))
        >>> bert_tf.save_vocabulary(vocabulary, "pieces.txt")
        >>> bert_tf.load_vocabulary("pieces.txt") == vocabulary
        True
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise ValueError(
            f"{path}: the vocabulary file does not exist. Learn a vocabulary with `bert-tf vocab --output {path}`, or "
            "use the vocab.txt of a model or a data directory."
        ) from error
    except OSError as error:
        raise ValueError(f"{path}: a vocabulary file must be readable. Received: {error}") from error
    try:
        text = content.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}: line {line}: must be UTF-8. Received: {error}") from error
    if path.suffix == ".json" or text.startswith("{"):
        raise ValueError(
            f"{path}: must hold one word piece per line. Received: JSON. New data needs word pieces, which `bert-tf "
            "vocab` learns; a preset with a byte-level BPE keeps its tokenizer.json itself."
        )
    if not text:
        raise ValueError(f"{path}: a vocabulary must not be empty. Received: 0 bytes. Run `bert-tf vocab` again.")
    # str.splitlines would split at U+2028 and similar characters, which may be pieces.
    lines = text.removesuffix("\n").split("\n")
    try:
        vocabulary = Vocabulary(tuple(line.strip(" \t\r") for line in lines))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if ids := vocabulary.unreachable:
        logger.warning(
            "%s: %d lines are blank or occur again, such as line %d, %r. They keep their ids; of equal pieces, the "
            "last one is used, as in the original BERT.",
            path, len(ids), ids[0] + 1, vocabulary.tokens[ids[0]],
        )  # fmt: skip
    return vocabulary


def save_vocabulary(vocabulary: Vocabulary, path: str | Path) -> None:
    """Writes a vocabulary file with one word piece per line (atomic write).

    Args:
        vocabulary: vocabulary to write.
        path: output file.

    Example:
        >>> from pathlib import Path
        >>> vocabulary = bert_tf.Vocabulary(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "film"))
        >>> bert_tf.save_vocabulary(vocabulary, "pieces.txt")
        >>> Path("pieces.txt").read_text().split()
        ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'film']
    """
    write_file(path, vocabulary._text().encode("utf-8"))

"""Reference implementation of the published BERT tokenization, simple and slow.

One character, one rule and one word at a time, with the Unicode tables of the Python that runs.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

CHINESE_BLOCKS = [
    range(0x4E00, 0xA000),
    range(0x3400, 0x4DC0),
    range(0x20000, 0x2A6E0),
    range(0x2A700, 0x2B740),
    range(0x2B740, 0x2B820),
    range(0x2B820, 0x2CEB0),
    range(0xF900, 0xFB00),
    range(0x2F800, 0x2FA20),
]


def clean(text: str) -> str:
    cleaned = ""
    for char in text:
        category = unicodedata.category(char)
        if char in "\t\n\r" or category == "Zs":
            cleaned += " "
        elif char not in "\0\ufffd" and category not in ("Cc", "Cf"):
            cleaned += char
    return cleaned


def is_chinese(char: str) -> bool:
    return not char.isascii() and any(ord(char) in block for block in CHINESE_BLOCKS)


def isolate_chinese(text: str) -> str:
    return "".join(f" {char} " if is_chinese(char) else char for char in text)


def is_punctuation(char: str) -> bool:
    if "!" <= char <= "~" and not char.isalnum():
        return True
    return unicodedata.category(char)[0] == "P"


def split_punctuation(token: str) -> list[str]:
    return "".join(f" {char} " if is_punctuation(char) else char for char in token).split(" ")


def words(text: str, lowercase: bool) -> list[str]:
    found = []
    for token in isolate_chinese(clean(text)).split():
        if lowercase:
            decomposed = unicodedata.normalize("NFD", token.lower())
            token = "".join(char for char in decomposed if unicodedata.category(char) != "Mn")
        found += [word for word in split_punctuation(token) if word]
    return found


def word_pieces(word: str, vocabulary: Iterable[str]) -> list[str]:
    if len(word) > 200:
        return ["[UNK]"]
    pieces: list[str] = []
    rest = word
    while rest:
        prefix = "##" if pieces else ""
        for length in range(len(rest), 0, -1):
            if prefix + rest[:length] in vocabulary:
                pieces.append(prefix + rest[:length])
                rest = rest[length:]
                break
        else:
            return ["[UNK]"]
    return pieces


def ids(text: str, vocabulary: dict[str, int], lowercase: bool) -> list[int]:
    """`vocabulary` maps pieces to ids."""
    return [vocabulary[p] for word in words(text, lowercase) for p in word_pieces(word, vocabulary)]

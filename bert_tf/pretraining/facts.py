"""Facts about the data of a pre-training run, for its page, its preset and the model card of an export."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bert_tf.data.examples.sample_examples import Token
from bert_tf.data.manifest import Manifest
from bert_tf.text.vocabulary import CONTINUATION

_MASK = "[MASK]"
# Most words of a sample text.
_WORDS = 30
# Spaces that word pieces do not keep: those that no text has before or after punctuation.
_SPACES = re.compile(r" (?=[.,;:!?)\]}%])|(?<=[(\[{]) | (?=['’] ?s\b)|(?<=['’]) (?=s\b)")


def data_facts(data: Path, manifests: Sequence[Manifest]) -> dict[str, Any]:
    """Returns the name of the data, the number of training examples, and the languages of the corpus.

    Args:
        data: the data directory, or the directory of several lengths.
        manifests: manifests of all lengths.

    Returns:
        `data_name`, `train_examples`, `languages` (sorted), `max_sequence_length` and `lowercase`.
    """
    return {
        "data_name": "/".join(data.absolute().parts[-2:]),
        "train_examples": sum(manifest.examples("train") for manifest in manifests),
        "languages": sorted({source.language for manifest in manifests for source in manifest.sources}),
        "max_sequence_length": max(manifest.config.max_seq_length for manifest in manifests),
        "lowercase": manifests[0].config.lowercase,
    }


def sample_inputs(tokens: Sequence[Token]) -> dict[str, str]:
    """Returns the input of an exported masked language model for the first segment of a held-out example.

    Args:
        tokens: the example, with masks.

    Returns:
        `text`, the original words with one [MASK]; {} if no word can be masked.
    """
    words: list[list[Token]] = []
    for token in tokens:
        if token.segment == 0 and not token.special:
            if token.continues and words:
                words[-1].append(token)
            else:
                words.append([token])
    words = words[:_WORDS]
    single = [number for number, word in enumerate(words) if len(word) == 1 and _original(word[0]).isalnum()]
    if not single:
        return {}
    predicted = [number for number in single if words[number][0].fate]
    masked = (predicted or single[len(single) // 2 :])[0]
    texts = ["".join(map(_original, word)) for word in words]
    texts[masked] = _MASK
    return {"text": _SPACES.sub("", " ".join(texts))}


def _original(token: Token) -> str:
    return (token.original or token.piece).removeprefix(CONTINUATION)

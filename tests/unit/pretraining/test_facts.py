"""The sample text of a pre-training run is readable and has one mask."""

from __future__ import annotations

import pytest

from bert_tf.data.examples.sample_examples import Token
from bert_tf.pretraining.facts import sample_inputs


def tokens(text: str) -> list[Token]:
    """Returns tokens for pieces between spaces; `piece/original/fate` is a predicted one, `b:piece` of segment 1."""
    found = []
    for part in text.split():
        piece, *predicted = part.removeprefix("b:").split("/")
        found.append(Token(piece, int(part.startswith("b:")), *predicted))
    return found


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ("[CLS] the cat [MASK]/sat/masked [SEP] b:it b:[MASK]/slept/masked", "the cat [MASK]"),
        ("[CLS] it ' s a [MASK]/big/masked mat . [SEP]", "it's a [MASK] mat."),
        ("( the ##re ) , red/there/random is", "(there), [MASK] is"),
        ("the cat sat", "the [MASK] sat"),
        ("play [MASK]/##ing/masked now", "playing [MASK]"),
    ],
)
def test_the_first_segment_is_written_with_one_mask(pieces: str, text: str) -> None:
    assert sample_inputs(tokens(pieces)) == {"text": text}


def test_a_text_without_words_is_no_sample() -> None:
    assert sample_inputs(tokens("[CLS] . . [SEP]")) == {}

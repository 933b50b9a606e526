"""Section of the training report with the model's predictions for masked validation examples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element

from bert_tf.reports.data.page import table_card, token_element
from bert_tf.reports.html import Content, element, extended
from bert_tf.text.vocabulary import CONTINUATION
from bert_tf.training.evaluation.mask_samples import GUESSES, FilledExample, MaskPrediction

_COLUMNS = (
    ("Correct piece", ""),
    ("Probability", "n"),
    *((f"Guess {number}", "") for number in range(1, GUESSES + 1)),
)


def filled_examples(examples: Sequence[FilledExample]) -> Iterator[Element]:
    """Yields the section on sample predictions, or nothing without examples."""
    if not examples:
        return
    yield element("h2", "Sample predictions")
    yield element(
        "p",
        "The first validation examples at the last evaluation. Each mask is replaced by the most probable piece.",
        class_="note",
    )
    yield element(
        "ul",
        element("li", _ruby("right", "word", "83%", ""), " correct, with its probability"),
        element("li", _ruby("wrong", "other", "word", ""), " wrong, with the correct piece"),
        class_="legend",
    )
    for number, example in enumerate(examples, start=1):
        yield _article(number, example)


def _article(number: int, example: FilledExample) -> Element:
    right = sum(map(example.is_right, example.fillings))
    header = element(
        "header",
        element("b", f"{number}"),
        element("span", f"{len(example.tokens)} tokens, {right} of {len(example.fillings)} masks correct"),
    )
    paragraphs = (
        extended(
            element("p", class_=f"segment {'ab'[segment]}", data_name="AB"[segment], dir="auto"),
            _spaced_tokens(example, segment),
        )
        for segment in sorted({token.segment for token in example.tokens})
    )
    table = table_card(_COLUMNS, (_cells(example, filling) for filling in example.fillings))
    details = element("details", element("summary", "Predictions for each mask"), table, open="")
    return element("article", header, *paragraphs, details, class_="card example")


def _spaced_tokens(example: FilledExample, segment: int) -> Iterator[Content]:
    """Yields the tokens of a segment with spaces between words."""
    fillings = {filling.position: filling for filling in example.fillings}
    started = False
    for position, token in enumerate(example.tokens):
        if token.segment != segment:
            continue
        if started and not token.continues:
            yield " "
        started = True
        yield _filled_token(example, fillings[position]) if position in fillings else token_element(token)


def _filled_token(example: FilledExample, filling: MaskPrediction) -> Element:
    original = example.tokens[filling.position].original
    guess, probability = filling.guesses[0]
    above = f"{probability:.0%}" if example.is_right(filling) else _piece(original)
    kind = "right" if example.is_right(filling) else "wrong"
    return _ruby(kind, _piece(guess), above, f"{original}; predicted: {guess}, {probability:.1%}")


def _ruby(kind: str, text: str, above: str, title: str) -> Element:
    parts = (element("span", text, class_="now"), element("rp", " ("), element("rt", above), element("rp", ")"))
    return element("ruby", *parts, class_=kind, title=title)


def _cells(example: FilledExample, filling: MaskPrediction) -> Iterator[Content]:
    original = example.tokens[filling.position].original
    sign = "✓" if example.is_right(filling) else "✗"
    yield element("span", f"{sign} {_piece(original)}", class_="right" if sign == "✓" else "wrong")
    yield f"{filling.probability:.1%}"
    for piece, share in filling.guesses:
        yield f"{_piece(piece)} {share:.1%}"


def _piece(piece: str) -> str:
    return piece.replace(CONTINUATION, "·", 1) if piece.startswith(CONTINUATION) else piece

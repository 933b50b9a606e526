"""Files in the layout of SQuAD 1.1 and 2.0 (arXiv 1606.05250, 1806.03822), and files of predictions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bert_tf.config.base import parse_json
from bert_tf.config.files import staged_file
from bert_tf.tasks.input_errors import InputErrors

# Characters of a context shown in a message.
_SHOWN = 40


@dataclass(frozen=True)
class GoldSpan:
    """A gold answer: characters `start` to `limit` (exclusive) of the context, in code points.

    `text` is as in the file, which the official scripts compare with.
    """

    text: str
    start: int
    limit: int


@dataclass(frozen=True)
class SquadExample:
    """A question about a context; `answers` are gold answers, each correct, or () without any or if not read."""

    place: str
    id: str
    question: str
    context: str
    answers: tuple[GoldSpan, ...] = ()


class _FaultError(Exception):
    """An error in a paragraph or a question."""


def read_json_object(path: Path) -> dict[str, Any]:
    """Reads a JSON object from a UTF-8 file. Raises ValueError for other contents, and duplicate names in an object."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            names = [name for name, _ in pairs]
            double = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"names in an object must be unique. Received twice: {double!r}")
        return content

    try:
        content = parse_json(path.read_bytes().decode("utf-8-sig"), object_pairs_hook=unique)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8: {error}") from error
    except ValueError as error:
        raise ValueError(f"{path}: not JSON: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: must hold a JSON object. Received: {type(content).__name__}")
    return content


def read_squad(
    path: Path, input_errors: InputErrors, labelled: bool, may_be_impossible: bool
) -> Iterator[SquadExample]:
    """Yields the questions in the order of the file.

    Faulty entries are added to `input_errors` by file and id, or by their place in the file if they have no id.
    `labelled` requires answers, unless a question is marked as impossible, which `may_be_impossible` allows, as in
    version 2.0. Raises ValueError for a file of another layout.
    """
    articles = read_json_object(path).get("data")
    if not isinstance(articles, list):
        raise ValueError(f"{path}: must have a list `data`, as SQuAD's files do. Received: {_shown(articles)}")
    seen: set[str] = set()
    for place, paragraph in _paragraphs(path, articles, input_errors):
        try:
            context, questions = _text(paragraph, "context"), _list(paragraph, "qas")
        except _FaultError as fault:
            input_errors.add(place, str(fault))
            continue
        for number, question in enumerate(questions):
            at = f"{place}.qas[{number}]"
            try:
                name = _text(question, "id")
                at = f"{path}: id {name}"
                if name in seen:
                    raise _FaultError("`id` must be unique in the file; it occurs a second time.")
                seen.add(name)
                answers = _answers(question, context, may_be_impossible) if labelled else ()
                yield SquadExample(at, name, _text(question, "question"), context, answers)
            except _FaultError as fault:
                input_errors.add(at, str(fault))


def _paragraphs(path: Path, articles: list[Any], input_errors: InputErrors) -> Iterator[tuple[str, Any]]:
    """Yields place and content of each paragraph."""
    for number, article in enumerate(articles):
        place = f"{path}: data[{number}]"
        try:
            for index, paragraph in enumerate(_list(article, "paragraphs")):
                yield f"{place}.paragraphs[{index}]", paragraph
        except _FaultError as fault:
            input_errors.add(place, str(fault))


def _answers(question: Mapping[str, Any], context: str, may_be_impossible: bool) -> tuple[GoldSpan, ...]:
    """Returns the gold answers with their offsets, duplicates included, as in the official scripts."""
    impossible = question.get("is_impossible")
    if not isinstance(impossible, bool | None):
        raise _FaultError(f"`is_impossible` must be true or false. Received: {_shown(impossible)}")
    if impossible and not may_be_impossible:
        raise _FaultError(
            "`is_impossible` is true, but squad1 requires an answer to every question. Use the task `squad2`."
        )
    answers = question.get("answers", [])
    if not isinstance(answers, list):
        raise _FaultError(f"`answers` must be a list. Received: {_shown(answers)}")
    if impossible and answers:
        raise _FaultError(f"`is_impossible` is true, but there are `answers`. Received: {_shown(answers[0])}")
    if not impossible and not answers:
        rule = ", or be marked `is_impossible`" if may_be_impossible else ""
        raise _FaultError(f"a labelled question must have `answers`{rule}. Received: none")
    return tuple(_aligned(answer, context) for answer in answers)


def _aligned(answer: Any, context: str) -> GoldSpan:
    """Returns an answer with its offsets in the context; runs of white space match each other."""
    text = _text(answer, "text")
    start = answer.get("answer_start")
    if not isinstance(start, int) or isinstance(start, bool):
        raise _FaultError(f"`answer_start` must be an integer. Received: {_shown(start)}")
    if start >= 0 and context.startswith(text, start):
        return GoldSpan(text, start, start + len(text))
    loose = re.compile(r"\s*(" + r"\s+".join(map(re.escape, text.split())) + ")")
    match = loose.match(context, start) if start >= 0 else None
    if match:
        return GoldSpan(text, *match.span(1))
    offset = context.find(text)
    location = f"is at character {offset}" if offset >= 0 else "is not in the context at all"
    received = context[start : start + min(len(text), _SHOWN)] if start >= 0 else ""
    raise _FaultError(
        f"the context must have the answer {_shown(text)} at its `answer_start`, {start}; the answer {location}. "
        f"Received: {received!r}"
    )


def _text(entry: Any, name: str) -> str:
    value = _object(entry).get(name)
    if not isinstance(value, str) or not value.strip():
        raise _FaultError(f"`{name}` must be a non-empty string. Received: {_shown(value)}")
    return value


def _list(entry: Any, name: str) -> list[Any]:
    value = _object(entry).get(name)
    if not isinstance(value, list):
        raise _FaultError(f"`{name}` must be a list. Received: {_shown(value)}")
    return value


def _object(entry: Any) -> Mapping[str, Any]:
    if not isinstance(entry, dict):
        raise _FaultError(f"must be an object. Received: {_shown(entry)}")
    return entry


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 2 * _SHOWN else f"{text[: 2 * _SHOWN]}..."


def read_null_odds(path: Path, ids: Sequence[str]) -> dict[str, float]:
    """Reads null odds by id, in the order of their file.

    Raises ValueError, with file and id, if a value is not a number, or one of `ids` has no value.
    """
    odds = read_json_object(path)
    for name, value in [(name, odds.get(name)) for name in ids] + list(odds.items()):
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ValueError(f"{path}: id {name}: the null odds must be a number. Received: {value!r}")
    return odds


@contextmanager
def json_object_writer(path: Path) -> Iterator[Callable[[str, Any], None]]:
    """Yields a function that adds a unique name and its value as one line of a JSON object, written atomically."""
    before = b"{\n"
    with staged_file(path) as file:

        def add(name: str, value: Any) -> None:
            nonlocal before
            text = f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}"
            # A lone surrogate has no UTF-8; it is written as an escape, which is valid JSON.
            file.write(before + text.encode("utf-8", "backslashreplace"))
            before = b",\n"

        yield add
        file.write(b"{}\n" if before == b"{\n" else b"\n}\n")

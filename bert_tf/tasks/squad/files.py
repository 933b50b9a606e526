"""Files in the layout of SQuAD 1.1 and 2.0 (arXiv 1606.05250, 1806.03822), and files of predictions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bert_tf.config.files import staged_file
from bert_tf.encoding.spans import GoldSpan, SquadExample
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.json_files import SHOWN, FieldError, list_field, read_json_object, shown, text_field


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
        raise ValueError(f"{path}: must have a list `data`, as SQuAD's files do. Received: {shown(articles)}")
    seen: set[str] = set()
    for place, paragraph in _paragraphs(path, articles, input_errors):
        try:
            context, questions = text_field(paragraph, "context"), list_field(paragraph, "qas")
        except FieldError as fault:
            input_errors.add(place, str(fault))
            continue
        for number, question in enumerate(questions):
            at = f"{place}.qas[{number}]"
            try:
                name = text_field(question, "id")
                at = f"{path}: id {name}"
                if name in seen:
                    raise FieldError("`id` must be unique in the file; it occurs a second time.")
                seen.add(name)
                answers = _answers(question, context, may_be_impossible) if labelled else ()
                yield SquadExample(at, name, text_field(question, "question"), context, answers)
            except FieldError as fault:
                input_errors.add(at, str(fault))


def _paragraphs(path: Path, articles: list[Any], input_errors: InputErrors) -> Iterator[tuple[str, Any]]:
    """Yields place and content of each paragraph."""
    for number, article in enumerate(articles):
        place = f"{path}: data[{number}]"
        try:
            for index, paragraph in enumerate(list_field(article, "paragraphs")):
                yield f"{place}.paragraphs[{index}]", paragraph
        except FieldError as fault:
            input_errors.add(place, str(fault))


def _answers(question: Mapping[str, Any], context: str, may_be_impossible: bool) -> tuple[GoldSpan, ...]:
    """Returns the gold answers with their offsets, duplicates included, as in the official scripts."""
    impossible = question.get("is_impossible")
    if not isinstance(impossible, bool | None):
        raise FieldError(f"`is_impossible` must be true or false. Received: {shown(impossible)}")
    if impossible and not may_be_impossible:
        raise FieldError(
            "`is_impossible` is true, but squad1 requires an answer to every question. Use the task `squad2`."
        )
    answers = question.get("answers", [])
    if not isinstance(answers, list):
        raise FieldError(f"`answers` must be a list. Received: {shown(answers)}")
    if impossible and answers:
        raise FieldError(f"`is_impossible` is true, but there are `answers`. Received: {shown(answers[0])}")
    if not impossible and not answers:
        rule = ", or be marked `is_impossible`" if may_be_impossible else ""
        raise FieldError(f"a labelled question must have `answers`{rule}. Received: none")
    return tuple(_aligned(answer, context) for answer in answers)


def _aligned(answer: Any, context: str) -> GoldSpan:
    """Returns an answer with its offsets in the context; runs of white space match each other."""
    text = text_field(answer, "text")
    start = answer.get("answer_start")
    if not isinstance(start, int) or isinstance(start, bool):
        raise FieldError(f"`answer_start` must be an integer. Received: {shown(start)}")
    if start >= 0 and context.startswith(text, start):
        return GoldSpan(text, start, start + len(text))
    loose = re.compile(r"\s*(" + r"\s+".join(map(re.escape, text.split())) + ")")
    match = loose.match(context, start) if start >= 0 else None
    if match:
        return GoldSpan(text, *match.span(1))
    offset = context.find(text)
    location = f"is at character {offset}" if offset >= 0 else "is not in the context at all"
    received = context[start : start + min(len(text), SHOWN)] if start >= 0 else ""
    raise FieldError(
        f"the context must have the answer {shown(text)} at its `answer_start`, {start}; the answer {location}. "
        f"Received: {received!r}"
    )


def read_null_odds(path: Path, ids: Sequence[str]) -> dict[str, float]:
    """Reads null odds by id, in the order of their file. Raises ValueError if a value is missing or no number."""
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

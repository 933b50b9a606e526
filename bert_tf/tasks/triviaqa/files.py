"""Files of questions in the layout of TriviaQA's release (arXiv 1705.03551): `qa/wikipedia-train.json` and similar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from bert_tf.tasks.json_files import FieldError, list_field, object_of, read_json_object, shown, text_field

WIKIPEDIA, WEB = "Wikipedia", "Web"
# Lists of documents of a question -> directory of their texts below `evidence`.
_FOLDERS = {"EntityPages": "wikipedia", "SearchResults": "web"}


@dataclass(frozen=True)
class TriviaDocument:
    """A document of a question; `path` is that of its text below the directory of evidence."""

    name: str
    title: str
    path: PurePosixPath


@dataclass(frozen=True)
class TriviaQuestion:
    """A question with its documents.

    `aliases` are the normalized answers, and `human_answers` those of the verified files; both are () in files without
    answers.
    """

    place: str
    id: str
    question: str
    aliases: tuple[str, ...]
    human_answers: tuple[str, ...]
    documents: tuple[TriviaDocument, ...]

    def id_of(self, document: TriviaDocument) -> str:
        """Returns the id of the question with one of its documents, as in the official scripts."""
        return f"{self.id}--{document.name}"


@dataclass(frozen=True)
class TriviaFile:
    """A file of questions. `domain` is that of the official evaluation, `split` is `train`, `dev` or `test`."""

    questions: tuple[TriviaQuestion, ...]
    domain: str
    split: str
    version: Any


def read_trivia(path: Path) -> TriviaFile:
    """Reads a file of questions.

    A file of the verified subset (`VerifiedEval`) has further questions and documents, which are left out, as in the
    official scripts. A document that a question lists twice is read once.

    Args:
        path: the file.

    Returns:
        The questions in the order of the file.

    Raises:
        ValueError: for a file of another layout, and for a faulty question, with file and id.
    """
    content = read_json_object(path)
    entries, domain = content.get("Data"), content.get("Domain")
    if not isinstance(entries, list) or domain not in (WIKIPEDIA, WEB):
        raise ValueError(
            f"{path}: must have a list `Data` and the `Domain` {WIKIPEDIA} or {WEB}. Received: {shown(entries)} and "
            f"{shown(domain)}. Use a file of the directory `qa` of TriviaQA's release."
        )
    verified = content.get("VerifiedEval") is True
    questions: dict[str, TriviaQuestion] = {}
    for number, entry in enumerate(entries):
        place = f"{path}: Data[{number}]"
        try:
            name = text_field(entry, "QuestionId")
            place = f"{path}: QuestionId {name}"
            if name in questions:
                raise FieldError("`QuestionId` must be unique in the file; it occurs a second time.")
            if not verified or entry.get("QuestionPartOfVerifiedEval"):
                questions[name] = _question(place, name, entry, verified and domain == WEB)
        except FieldError as fault:
            raise ValueError(f"{place}: {fault}") from fault
    if not questions:
        raise ValueError(f"{path}: must have questions. Received: none")
    return TriviaFile(tuple(questions.values()), domain, str(content.get("Split", "")), content.get("Version"))


def _question(place: str, name: str, entry: Mapping[str, Any], only_verified: bool) -> TriviaQuestion:
    answer = object_of(entry.get("Answer", {}))
    documents: dict[str, TriviaDocument] = {}
    for document in _documents(entry, only_verified):
        documents.setdefault(document.name, document)
    return TriviaQuestion(
        place,
        name,
        text_field(entry, "Question"),
        _texts(answer, "NormalizedAliases"),
        _texts(answer, "HumanAnswers"),
        tuple(documents.values()),
    )


def _documents(entry: Mapping[str, Any], only_verified: bool) -> Iterator[TriviaDocument]:
    for pages, folder in _FOLDERS.items():
        for page in list_field(entry, pages) if pages in entry else []:
            name = text_field(page, "Filename")
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts:
                raise FieldError(f"`Filename` must be a path below the directory of evidence. Received: {shown(name)}")
            if not only_verified or page.get("DocPartOfVerifiedEval"):
                yield TriviaDocument(name, str(page.get("Title", name)), folder / path)


def _texts(answer: Mapping[str, Any], name: str) -> tuple[str, ...]:
    values = list_field(answer, name) if name in answer else []
    for value in values:
        if not isinstance(value, str):
            raise FieldError(f"`{name}` must hold strings. Received: {shown(value)}")
    return tuple(values)

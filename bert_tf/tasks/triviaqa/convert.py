"""Conversion of TriviaQA to SQuAD's format: the beginning of each document, with an answer that occurs in it."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bert_tf.config.files import staged_file
from bert_tf.entry.progress import Progress
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.triviaqa.files import TriviaDocument, TriviaFile, TriviaQuestion, read_trivia
from bert_tf.tasks.triviaqa.metric import SEPARATORS, normalized

logger = logging.getLogger(__name__)
MAX_TOKENS = 400
"""Tokens of a document in the BERT paper (arXiv 1810.04805, section 4.2)."""

# Words and punctuation characters.
_TOKEN = re.compile(r"\w+|[^\w\s]")
# Words of normalized answers (`metric.normalized`), which have no articles.
_WORD = re.compile(rf"[^\s{re.escape(SEPARATORS)}]+")
_ARTICLES = ("a", "an", "the")
_SHOWN = 3


@dataclass
class ConversionCounts:
    """Counts of a conversion.

    Args:
        documents: documents that were written, each with its question.
        without_answer: documents whose beginning holds none of the answers.
        skipped: documents without a text, which have an entry in `input_errors`.
    """

    documents: int = 0
    without_answer: int = 0
    skipped: int = 0


def convert_trivia(
    path: Path, evidence: Path, output: Path, max_tokens: int, input_errors: InputErrors
) -> ConversionCounts:
    """Writes the questions of a file of TriviaQA in the format of SQuAD 1.1, each with one of its documents.

    A context is the unchanged text of the first `max_tokens` words and punctuation characters of a document. The answer
    is the first alias of the question that occurs in it, at its first occurrence. As in the official
    convert_to_squad_format.py, ids have the form `QuestionId--Filename`, and documents without an answer have no
    `answers`. The training split has no such documents.

    Args:
        path: file of the directory `qa`.
        evidence: directory with the directories `wikipedia` and `web`.
        output: the JSON file, written atomically, in the order of `path`.
        max_tokens: maximum number of tokens of a context.
        input_errors: collects documents that do not exist, have no text or are not UTF-8.

    Returns:
        The counts.

    Raises:
        ValueError: for a faulty question, and if no document can be written.
    """
    trivia, counts = read_trivia(path), ConversionCounts()
    with staged_file(output) as file:
        file.write(f'{{"version": {json.dumps(trivia.version)}, "data": ['.encode())
        separator = "\n"
        for article in _articles(trivia, evidence, max_tokens, counts, input_errors):
            text = separator + json.dumps(article, ensure_ascii=False)
            # A lone surrogate has no UTF-8; it is written as an escape, which is valid JSON.
            file.write(text.encode("utf-8", "backslashreplace"))
            separator = ",\n"
        if not counts.documents:
            raise ValueError(
                f"{path}: must have documents in {evidence}, with an answer in their first {max_tokens} tokens. "
                f"Received: {counts.without_answer} without an answer and {counts.skipped} without a text"
                f"{_places(input_errors)}. Use the directory `evidence` of TriviaQA's release."
            )
        file.write(b"\n]}\n")
    if counts.skipped:
        logger.warning("documents without a text, which were skipped: %d%s", counts.skipped, _places(input_errors))
    return counts


def _articles(
    trivia: TriviaFile, evidence: Path, max_tokens: int, counts: ConversionCounts, input_errors: InputErrors
) -> Iterator[dict[str, Any]]:
    """Yields an article of SQuAD's format for each question and document, and counts them."""
    progress = Progress("documents", sum(len(question.documents) for question in trivia.questions))
    for question in trivia.questions:
        for document in question.documents:
            progress.add(1)
            context = _context(evidence / document.path, max_tokens, input_errors)
            if not context:
                counts.skipped += 1
                continue
            span = find_answer(context, question.aliases)
            counts.without_answer += span is None
            if span is not None or trivia.split != "train":
                counts.documents += 1
                yield _article(question, document, context, span)


def _article(
    question: TriviaQuestion, document: TriviaDocument, context: str, span: tuple[int, int] | None
) -> dict[str, Any]:
    answers = [{"text": context[slice(*span)], "answer_start": span[0]}] if span else []
    fields = {"id": question.id_of(document), "qid": question.id, "question": question.question, "answers": answers}
    return {"title": document.title, "paragraphs": [{"context": context, "qas": [fields]}]}


def _context(path: Path, max_tokens: int, input_errors: InputErrors) -> str:
    """Returns the beginning of a document; "" for a document without a text, with an input error."""
    try:
        context = first_tokens(path.read_bytes().decode("utf-8-sig"), max_tokens)
    except (FileNotFoundError, NotADirectoryError):
        input_errors.add(str(path), "the document does not exist")
    except UnicodeDecodeError as error:
        input_errors.add(str(path), f"not UTF-8: {error}")
    else:
        if not context:
            input_errors.add(str(path), "the document must have a text. Received: an empty file")
        return context
    return ""


def first_tokens(text: str, count: int) -> str:
    """Returns the text from its first token to its token `count`; tokens are words and punctuation characters."""
    start = end = 0
    for number, token in zip(range(count), _TOKEN.finditer(text), strict=False):
        start, end = (start if number else token.start()), token.end()
    return text[start:end]


def find_answer(context: str, aliases: Sequence[str]) -> tuple[int, int] | None:
    """Returns first character and end (exclusive) of the first alias that occurs in a context; None if none does.

    Aliases are normalized, so the words of the context are compared after the same normalization. In contrast to the
    official convert_to_squad_format.py, an alias matches whole words only.
    """
    words = [word for word in _WORD.finditer(context) if word[0].lower() not in _ARTICLES]
    # Words are separated by single spaces, so the number of spaces before an alias is that of its first word.
    text = f" {' '.join(word[0].lower() for word in words)} "
    for alias in map(normalized, aliases):
        offset = text.find(f" {alias} ") if alias else -1
        if offset >= 0:
            first = text.count(" ", 0, offset)
            return words[first].start(), words[first + alias.count(" ")].end()
    return None


def _places(input_errors: InputErrors) -> str:
    """Returns the first places of input errors, for a message."""
    places = [problem.place for problem in input_errors.problems[:_SHOWN]]
    return f", among them {', '.join(places)}" if places else ""

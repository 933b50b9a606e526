"""Exact match and F1 of TriviaQA, as in the official triviaqa_evaluation.py, in percent."""

from __future__ import annotations

import string
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_tf.encoding.span_metric import ARTICLES, Points, metrics_v1, word_f1
from bert_tf.tasks.json_files import read_json_object
from bert_tf.tasks.triviaqa.files import WIKIPEDIA, TriviaFile, TriviaQuestion

# The official script replaces the quotation marks, too.
SEPARATORS = f"{string.punctuation}‘’´`"
_SPACES = str.maketrans(dict.fromkeys(SEPARATORS, " "))


def normalized(answer: str) -> str:
    """Normalizes an answer: lower case, spaces for punctuation, no English articles, single spaces between words."""
    return " ".join(ARTICLES.sub(" ", answer.lower().translate(_SPACES)).split())


def points(question: TriviaQuestion, predicted: str) -> Points:
    """Returns the best points of a prediction over all aliases and human answers of a question."""
    golds = [normalized(gold) for gold in (*question.aliases, *question.human_answers)]
    answer = normalized(predicted)
    return Points(max(float(gold == answer) for gold in golds), max(word_f1(gold, answer) for gold in golds))


def score_trivia(trivia: TriviaFile, predictions: Mapping[str, str]) -> tuple[dict[str, float], int]:
    """Computes the metrics of predictions, each id once.

    Args:
        trivia: the questions with answers.
        predictions: answers by question in the domain Wikipedia, and by question and document in the domain Web.

    Returns:
        `exact` and `f1` in percent, with `missing` predictions, which score 0; and the number of ids.

    Raises:
        ValueError: if a question has no answers, or no prediction belongs to a question.
    """
    by_id = questions_by_id(trivia)
    for question in trivia.questions:
        if not question.aliases and not question.human_answers:
            raise ValueError(f"{question.place}: must have `NormalizedAliases` to be scored. Received: no answers")
    scored = [points(question, predictions[id]) if id in predictions else None for id, question in by_id.items()]
    missing = scored.count(None)
    if missing == len(by_id):
        form = (
            "QuestionId, or be the n best answers of documents,"
            if trivia.domain == WIKIPEDIA
            else "QuestionId--Filename"
        )
        raise ValueError(
            f"the predictions must have ids of the form {form} in the domain {trivia.domain}. Received: none of the "
            f"{len(by_id)} ids. Use the file `.nbest.json` that `bert-tf predict` writes for the same questions."
        )
    return metrics_v1(scored) | ({"missing": missing} if missing else {}), len(by_id)


def questions_by_id(trivia: TriviaFile) -> dict[str, TriviaQuestion]:
    """Returns the questions by the ids of their predictions, in the order of the file."""
    if trivia.domain == WIKIPEDIA:
        return {question.id: question for question in trivia.questions}
    return {question.id_of(document): question for question in trivia.questions for document in question.documents}


def read_predictions(path: Path, trivia: TriviaFile) -> dict[str, str]:
    """Reads predictions: answers as strings, or the n best answers of `bert-tf predict`.

    Of the n best answers, the most probable one with a text is taken. In the domain Wikipedia, their ids may be those
    of a question and a document. The probabilities of equal answers are then added over the documents of a question,
    and the answer with the largest sum is taken, as in the official evaluate_bidaf.py.

    Args:
        path: JSON object of answers by id.
        trivia: the questions.

    Raises:
        ValueError: for another file, with the id.
    """
    question_of = {}
    if trivia.domain == WIKIPEDIA:
        question_of = {
            question.id_of(page): question.id for question in trivia.questions for page in question.documents
        }
    answers: dict[str, str] = {}
    shares: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    texts: dict[tuple[str, str], str] = {}
    for name, value in read_json_object(path).items():
        if isinstance(value, str):
            answers[name] = value
            continue
        text, probability = _best(path, name, value)
        id, key = question_of.get(name, name), normalized(text)
        shares[id][key] += probability
        texts.setdefault((id, key), text)
    chosen = {id: texts[id, max(sums, key=lambda key: sums[key])] for id, sums in shares.items()}
    return answers | chosen


def _best(path: Path, name: str, candidates: Any) -> tuple[str, float]:
    """Returns text and probability of the best candidate with a text; "" and 0 if all are empty."""
    try:
        texts = [(candidate["text"], float(candidate["probability"])) for candidate in candidates]
        valid = all(isinstance(text, str) for text, _ in texts)
    except (TypeError, KeyError, ValueError):
        valid = False
    if not valid:
        raise ValueError(
            f"{path}: id {name}: must be a string, or a list of objects with `text` and `probability`. "
            f"Received: {candidates!r:.80}"
        )
    return max((pair for pair in texts if pair[0]), key=lambda pair: pair[1], default=("", 0.0))

"""Questions, files and a vocabulary for the tests of SQuAD's tasks."""

from __future__ import annotations

import json
from pathlib import Path

from bert_tf.encoding.spans import GoldSpan, SquadExample
from bert_tf.text.tokenizer import BertTokenizer
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *LETTERS, *(f"##{letter}" for letter in LETTERS), ".", ","))


def tokenizer() -> BertTokenizer:
    return BertTokenizer(VOCABULARY)


def example(question: str, context: str, *answers: str, name: str = "q") -> SquadExample:
    golds = tuple(GoldSpan(text, context.index(text), context.index(text) + len(text)) for text in answers)
    return SquadExample(f"file: id {name}", name, question, context, golds)


def question(name: str, context: str, *answers: str, **fields: object) -> dict:
    found = [{"text": text, "answer_start": context.find(text)} for text in answers]
    return {"id": name, "question": f"what is {name}", "answers": found} | fields


def write_file(path: Path, *paragraphs: tuple[str, list[dict]]) -> Path:
    content = [{"context": context, "qas": questions} for context, questions in paragraphs]
    path.write_text(json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": content}]}))
    return path

"""The published evaluation's metrics of published predictions, and the coverage of real answers by word pieces."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.squad.task import Squad1Task, Squad2Task
from bert_tf.text.tokenizer import BertTokenizer
from bert_tf.text.vocabulary import load_vocabulary


@pytest.mark.parametrize(
    "name",
    ["v2.0/BERT_single", "v2.0/BiDAF", "v2.0/nlnet", "v1.1/BERT_ens", "v1.1/Match", "v1.1/SLQA", "v1.1/r_net"],
)
def test_metrics_equal_those_of_the_official_script(shared_data: Path, name: str) -> None:
    folder = shared_data / "finetune/squad/official_predictions"
    references = json.loads((folder / "reference_scores.json").read_text())
    pair, reference = next((key.split(" | "), value) for key, value in references.items() if f"| {name}" in key)
    tasks = [Squad2Task()] if name.startswith("v2.0") else [Squad1Task(), Squad2Task()]
    for task in tasks:
        examples = list(task.read(shared_data / pair[0], InputErrors()))
        metrics = task.score(examples, task.read_answers(folder / pair[1], examples))
        assert metrics == {key: reference[key] for key in metrics}
        assert isinstance(task, Squad2Task) <= (set(metrics) == set(reference))


@pytest.mark.integration
# Questions whose first answer is part of a word piece only; the other missing ones have more than 30 tokens.
@pytest.mark.parametrize(
    ("name", "vocabulary", "most_lost"),
    [("xquad.en", "uncased", 1), ("xquad.de", "multilingual-cased", 0), ("xquad.zh", "multilingual-cased", 0),
     ("squad2.0_dev_5articles", "uncased", 0)],
)  # fmt: skip
def test_scores_of_gold_tokens_give_gold_answers(shared_data: Path, name: str, vocabulary: str, most_lost: int) -> None:
    task = (Squad1Task if name.startswith("xquad") else Squad2Task)(max_answer_length=150, n_best=2)
    path = shared_data / f"vocab/bert-base-{vocabulary}-vocab.txt"
    examples = list(task.read(shared_data / f"finetune/squad/{name}.json", InputErrors()))
    windows = task.encode(examples, BertTokenizer(load_vocabulary(path), vocabulary == "uncased"), 384)
    outputs = {}
    for output, targets in windows.targets.items():
        outputs[output] = np.zeros(len(windows.token_ids), np.float32)
        outputs[output][windows.row_splits[:-1] + targets] = 10.0
    answers = task.answers(examples, windows, outputs)
    points = task.all_points(examples, answers)
    lost = [(e.id, answer.text) for e, answer, found in zip(examples, answers, points, strict=True) if not found.exact]
    assert len(lost) <= most_lost, lost

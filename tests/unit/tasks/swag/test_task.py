"""The task `swag`: files with its header, four pairs a row, predictions, and a run from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bert_tf.config import BertConfig
from bert_tf.data.schema import PADDING_MASK, SEGMENT_IDS, TOKEN_IDS
from bert_tf.encoding.batches import training_batches
from bert_tf.encoding.choices import ChoiceAnswer, ChoiceExample
from bert_tf.encoding.inference import outputs_of
from bert_tf.reports.tasks.scored import ScoredLabel, ScoredLabels
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.registry import task_of
from bert_tf.tasks.swag.task import SwagTask
from bert_tf.text.tokenizer import BertTokenizer
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *"abcdefgh"))
HEADER = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label\n"


def row(number: int, label: object = 1, sent1: str = "a", sent2: str = "b", ending: str = "f") -> str:
    return f"{number},v,0,a b,{sent1},{sent2},gold,c,d d,e,{ending},{label}\n"


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_bytes(text.encode())
    return folder / name


def read(path: Path, task: SwagTask = SwagTask(), labelled: bool = True) -> list[ChoiceExample]:  # noqa: B008
    return list(task.read(path, InputErrors(), labelled))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_rows_are_read(tmp_path, mark, end):
    rows = [row(0), row(1, 3, '"a ""b"", c\nd"', "", '"e,f"'), "\n", row(2, 0, "")]
    path = write(tmp_path, "train.csv", mark + (HEADER + "".join(rows)).replace("\n", end))
    inner = "\r\n" if end == "\r\n" else "\n"
    assert read(path) == [
        ChoiceExample(f"{path}: line 2", 0, "a", "b", ("c", "d d", "e", "f"), 1),
        ChoiceExample(f"{path}: line 3", 1, f'a "b", c{inner}d', "", ("c", "d d", "e", "e,f"), 3),
        ChoiceExample(f"{path}: line 6", 2, "", "b", ("c", "d d", "e", "f"), 0),
    ]


def test_columns_are_found_by_name(tmp_path):
    path = write(tmp_path, "two.csv", "label,ending1,sent2,ending0,sent1\n1,x,b,y,a\n")
    examples = read(path)
    assert examples == [ChoiceExample(f"{path}: line 2", 0, "a", "b", ("y", "x"), 1)]
    assert SwagTask().fit_labels(examples).choices == 2


def test_the_official_test_file_has_no_label(tmp_path):
    path = write(tmp_path, "test.csv", HEADER.replace(",label", "") + row(0, "").replace(",\n", "\n"))
    assert [example.label for example in read(path, labelled=False)] == [None]
    with pytest.raises(ValueError, match="test.csv: line 1: no column `label`"):
        read(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"line 1: no column `sent1`. Received: \[\]"),
        (HEADER.replace("sent2", "sent"), "line 1: no column `sent2`"),
        (HEADER.replace("ending0", "ending4"), "line 1: no column `ending0`"),
        (HEADER.replace("ending1", "end1"), "line 1: there must be at least two endings. Received: ending0"),
        (HEADER + row(0, 4), "line 2: `label` must be one of 0, 1, 2, 3. Received: '4'"),
        (HEADER + row(0, "-1"), "line 2: `label` must be one of 0, 1, 2, 3. Received: '-1'"),
        (HEADER + row(0, ""), "line 2: `label` must be one of 0, 1, 2, 3. Received: ''"),
        (HEADER + row(0) + row(1, ending=" "), "line 3: `ending3` is empty"),
        (HEADER + row(0, sent1="", sent2=" "), "line 2: `sent1` and `sent2` are both empty"),
        (HEADER + row(0) + "1,v\n", "line 3: expected 12 columns. Received: 2"),
        (HEADER + row(0, sent1='"a" b'), "line 2: quotes must enclose whole cells and be closed"),
        (HEADER + row(0) + row(1, sent1='"a') + row(2), "line 3: quotes must enclose whole cells and be closed"),
    ],
)
def test_invalid_files_are_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=f"dev.csv: {message}"):
        read(write(tmp_path, "dev.csv", text))


def test_invalid_utf8_is_refused(tmp_path):
    (tmp_path / "dev.csv").write_bytes(HEADER.encode() + b"na\xefve\n")
    with pytest.raises(ValueError, match="dev.csv: not UTF-8"):
        read(tmp_path / "dev.csv")


def test_invalid_rows_are_skipped_and_counted(tmp_path):
    rows = [row(0, 7), row(1), row(2, sent1='"a" b'), row(3)]
    input_errors = InputErrors(skip=True)
    examples = list(SwagTask().read(write(tmp_path, "dev.csv", HEADER + "".join(rows)), input_errors))
    assert [example.place.rpartition(" ")[2] for example in examples] == ["3", "5"]
    assert [problem.place.rpartition(" ")[2] for problem in input_errors.problems] == ["2", "4"]


def test_long_texts_are_read(tmp_path):
    text = "a " * 100_000
    assert read(write(tmp_path, "dev.csv", HEADER + row(0, sent1=text)))[0].context == text


def test_files_must_have_as_many_endings_as_training_data(tmp_path):
    two = write(tmp_path, "two.csv", "sent1,sent2,ending0,ending1,label\na,b,c,d,1\n")
    four = read(write(tmp_path, "four.csv", HEADER + row(0)))
    with pytest.raises(
        ValueError, match="two.csv: line 1: there must be 4 endings, as in training. Received: ending0, e"
    ):
        read(two, SwagTask(4))
    with pytest.raises(ValueError, match=r"two.csv: line 2: all training files must have the 4 endings of four.csv"):
        SwagTask().validate_examples(four + read(two), Path("four.csv"))


@pytest.fixture(scope="module")
def tokenizer() -> BertTokenizer:
    return BertTokenizer(VOCABULARY)


def example(number: int, context: str, start: str, *endings: str, label: int = 0) -> ChoiceExample:
    return ChoiceExample(f"f: line {number + 2}", number, context, start, endings, label)


EXAMPLES = [
    example(0, "a b", "c", "d", "e f", "g", "h", label=1),
    example(1, "", "a", "b", "c", "d", "e", label=3),
    example(2, "a a a a a", "", "b b b b b b", "c", "d", "e", label=2),
]


def test_four_pairs_per_row(tokenizer):
    rows = SwagTask(4).encode(EXAMPLES, tokenizer, 10)
    assert (len(rows), rows.choices, rows.lengths.tolist()) == (3, 4, [8, 5, 10])
    inputs, targets, weights = rows.batch(np.array([2, 0]))
    assert {values.shape for values in inputs.values()} == {(2, 4, 10)}
    pairs = [
        (
            " ".join(tokenizer.tokens(ids[mask == 1][segments[mask == 1] == 0])),
            " ".join(tokenizer.tokens(ids[segments == 1])),
        )
        for ids, mask, segments in zip(
            *(inputs[name].reshape(8, -1) for name in (TOKEN_IDS, PADDING_MASK, SEGMENT_IDS)), strict=True
        )
    ]
    assert pairs == [
        ("[CLS] a a a a [SEP]", "b b b [SEP]"),
        *(("[CLS] a a a a a [SEP]", f"{ending} [SEP]") for ending in "cde"),
        *(("[CLS] a b [SEP]", f"c {ending} [SEP]") for ending in ("d", "e f", "g", "h")),
    ]
    assert (targets[""].tolist(), weights[""].tolist()) == ([2, 1], [1.0, 1.0])
    ((inputs, targets, _),) = training_batches(rows, 3, seed=1).take(1)
    assert inputs[TOKEN_IDS].shape[:2] == (3, 4)
    assert sorted(targets.numpy().tolist()) == [1, 2, 3]
    assert not SwagTask(4).encode(EXAMPLES, tokenizer, 10, labelled=False).targets


def test_outputs_are_returned_by_ending(tokenizer):
    rows = SwagTask(4).encode(EXAMPLES * 5, tokenizer, 10)
    config = BertConfig(vocabulary_size=len(VOCABULARY), hidden_dim=4, num_layers=1, num_heads=1, intermediate_dim=4)
    outputs = outputs_of(lambda inputs: inputs[PADDING_MASK].sum(axis=-1), rows, config, by_token=False)
    np.testing.assert_array_equal(outputs[""], np.diff(rows.row_splits).reshape(15, 4))


def test_answers_and_metrics():
    task = SwagTask(4)
    logits = np.log(np.array([[1, 7, 1, 1], [1, 1, 1, 7], [4, 2, 3, 1]], np.float32))
    answers = task.answers(EXAMPLES, None, {"": logits + 100})
    assert [answer.choice for answer in answers] == [1, 3, 0]
    np.testing.assert_allclose(answers[2].probabilities, [0.4, 0.2, 0.3, 0.1], rtol=1e-5)
    assert task.score(EXAMPLES, answers) == {"accuracy": 2 / 3}
    scored = task.score_details(EXAMPLES[:1], answers[:1])
    names = ("ending0", "ending1", "ending2", "ending3")
    texts = (("sent1", "a b"), ("sent2", "c"), *zip(names, ("d", "e f", "g", "h"), strict=True))
    assert scored == ScoredLabels(names, [ScoredLabel("f: line 2", texts, "ending1", answers[0].probabilities)])
    assert task_of(json.loads(json.dumps({"task": "swag", "max_sequence_length": 9, **task.description()}))) == (
        task,
        9,
    )


def test_predictions(tmp_path):
    path = tmp_path / "out.csv"
    answers = [ChoiceAnswer(1, (0.1, 0.9)), ChoiceAnswer(3), ChoiceAnswer(0)]
    SwagTask(4).write(path, iter([(EXAMPLES[:2], answers[:2]), (EXAMPLES[2:], answers[2:])]))
    assert path.read_text() == ",pred\n0,1\n1,3\n2,0\n"
    beside = [json.loads(line) for line in (tmp_path / "out.probabilities.jsonl").read_text().splitlines()]
    assert beside[0] == {"index": 0, "pred": 1, "probabilities": [0.1, 0.9]}
    assert [answer.choice for answer in SwagTask(4).read_answers(path, EXAMPLES)] == [1, 3, 0]


@pytest.mark.parametrize(
    "text", [",pred\n2,0\n0,1\n1,3\n", "pred\n1\n3\n0\n", "ending0,pred,\n.1,0,2\n.2,3,1\n.3,1,0\n"]
)
def test_predictions_of_other_programs(tmp_path, text):
    answers = SwagTask().read_answers(write(tmp_path, "theirs.csv", text), EXAMPLES)
    assert [answer.choice for answer in answers] == [1, 3, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: no column `pred`"),
        (",label\n0,1\n", "line 1: no column `pred`"),
        (",pred\n0,1\n0,1\n", r"line 3: must be the one prediction for one of 3 rows. Received: \['0', '1'\]"),
        (",pred\n3,1\n", "line 2: must be the one prediction for one of 3 rows"),
        (",pred\n0,4\n", r"line 2: `pred` must be in \[0, 4\). Received: '4'"),
        (",pred\n0\n", r"line 2: `pred` must be in \[0, 4\). Received: ''"),
        (",pred\n0,1\n2,1\n", "there must be a prediction for every row. Received: none for row 1"),
        ("pred\n1\n1\n1\n1\n", "line 5: must be the one prediction"),
    ],
)
def test_invalid_predictions_are_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=f"theirs.csv: {message}"):
        SwagTask().read_answers(write(tmp_path, "theirs.csv", text), EXAMPLES)


@pytest.mark.parametrize(("name", "count"), [("codah_train", 1_665), ("codah_val", 556), ("cosmosqa_valid", 2_985)])
def test_real_files_are_read_completely(shared_data, name, count):
    path = shared_data / "finetune/multiple_choice/derived_swag_csv" / f"{name}.csv"
    examples = read(path)
    assert [example.number for example in examples] == list(range(count))
    assert {example.label for example in examples} == {0, 1, 2, 3}

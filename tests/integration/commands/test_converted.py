"""A classifier fine-tuned by another program predicts files of its task after one conversion."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from bert_tf.cli import main
from bert_tf.models import load_preset
from bert_tf.text.tokenizer import BertTokenizer
from tests.support.paths import REPOSITORY, SUPPORT, TESTDATA

DATA = REPOSITORY / "../shared/data"
SST2 = DATA / "finetune/glue/SST-2"
PYTHON = os.environ.get("BERT_TF_PEER_HUGGINGFACE")
LABELS = ("neutral", "contradiction", "entailment")
PAIRS = [("a bc", "d"), ("b", "abba e"), ("c c c", "f a"), ("x y", "j"), ("k", "k")]


def convert(kind: str, target: Path, *flags: str, form: str = "preset") -> int:
    return main(["convert", "--source", "huggingface", str(TESTDATA / kind), "--target", form, str(target), *flags])


def test_converted_classifier_predicts_a_glue_file(tmp_path: Path) -> None:
    preset, file, answers = tmp_path / "preset", tmp_path / "dev.tsv", tmp_path / "answers.tsv"
    flags = ("--task", "mnli", "--labels", *LABELS)
    assert convert("huggingface_sequence_classification", preset, *flags) == 0
    rows = [f"{n}\t{first}\t{second}" for n, (first, second) in enumerate(PAIRS)]
    file.write_text("\n".join(["index\tsentence1\tsentence2", *rows, ""]))
    assert main(["predict", "--preset", str(preset), "--input", str(file), "--output", str(answers)]) == 0

    loaded = load_preset(preset)
    tokenizer = BertTokenizer(loaded.vocabulary, loaded.lowercase)
    expected = []
    for pair in PAIRS:
        pieces = tokenizer.tokenize(pair)
        first, second = np.split(pieces.values, pieces.row_splits[1:2])
        ids = [tokenizer.vocabulary.cls_id, *first, tokenizer.vocabulary.sep_id, *second, tokenizer.vocabulary.sep_id]
        inputs = {
            "token_ids": np.array([ids], np.int32),
            "segment_ids": np.array([[0] * (len(first) + 2) + [1] * (len(second) + 1)], np.int32),
            "padding_mask": np.ones((1, len(ids)), np.int32),
        }
        expected.append(LABELS[int(np.argmax(loaded.model(inputs)))])
    found = [line.split("\t") for line in answers.read_text().splitlines()]
    assert found == [["index", "prediction"], *([str(n), label] for n, label in enumerate(expected))]


def test_converted_multiple_choice_model_accepts_any_number_of_choices(tmp_path: Path) -> None:
    preset, file, answers = tmp_path / "preset", tmp_path / "test.csv", tmp_path / "answers.csv"
    assert convert("huggingface_multiple_choice", preset, "--task", "swag") == 0
    file.write_text("sent1,sent2,ending0,ending1,ending2\na b,c,d,e,f\nb,c,d e,a,b\n")
    assert main(["predict", "--preset", str(preset), "--input", str(file), "--output", str(answers)]) == 0
    lines = (tmp_path / "answers.probabilities.jsonl").read_text().splitlines()
    assert [len(json.loads(line)["probabilities"]) for line in lines] == [3, 3]


@pytest.mark.slow
@pytest.mark.skipif(PYTHON is None, reason="BERT_TF_PEER_HUGGINGFACE names no interpreter with transformers")
@pytest.mark.skipif(not SST2.is_dir(), reason="the real tasks (../shared/data/finetune) are absent")
def test_converted_classifier_of_transformers_gives_the_same_predictions(tmp_path: Path) -> None:
    script = SUPPORT / "commands/finetune_with_transformers.py"
    files = [DATA / "vocab/bert-base-uncased-vocab.txt", SST2 / "train.tsv", SST2 / "dev.tsv", tmp_path / "peer"]
    subprocess.run([str(PYTHON), str(script), *map(str, files)], check=True)
    preset, answers = tmp_path / "preset", tmp_path / "answers.tsv"
    assert main(["convert", "--source", "huggingface", str(files[3]), "--target", "preset", str(preset),
                 "--task", "sst2"]) == 0  # fmt: skip
    assert main(["predict", "--preset", str(preset), "--input", str(files[2]), "--output", str(answers)]) == 0
    found = [line.split("\t")[1] for line in answers.read_text().splitlines()[1:]]
    expected = [str(answer) for answer in json.loads((files[3] / "answers.json").read_text())]
    assert set(expected) == {"0", "1"} and found == expected


@pytest.mark.parametrize(
    ("kind", "flags", "message"),
    [
        (
            "sequence_classification",
            ("--task", "mnli"),
            "in the order of the model's outputs. Received: bad, fair, good",
        ),
        (
            "sequence_classification",
            ("--task", "sst2", "--labels", "0", "1"),
            "must name the 3 outputs. Received: 0, 1",
        ),
        ("sequence_classification", ("--task", "stsb"), "`stsb` needs a head of one output. Received: 3"),
        (
            "sequence_classification",
            ("--task", "ner"),
            "`ner` does not match the source's head. Received: sequence",
        ),
        ("token_classification", ("--task", "ner"), "`labels` must be O, and B- and I- with a type"),
        ("backbone", ("--task", "mnli"), "not match the source's head. Received: no head"),
    ],
)
def test_another_task_is_refused(
    kind: str, flags: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert convert(f"huggingface_{kind}", tmp_path / "preset", *flags) == 1
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--labels", "a", "b", "c"), "`--labels` needs `--task`. Received: a, b, c"),
        (("--regression",), "`--regression` needs `--task classify`. Received: no task"),
        (("--regression", "--task", "stsb"), "`--regression` needs `--task classify`. Received: stsb"),
    ],
)
def test_task_flags_without_effect_are_refused(
    flags: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert convert("huggingface_sequence_classification", tmp_path / "preset", *flags) == 1
    assert message in capsys.readouterr().err


def test_task_flag_requires_a_preset_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--task", "mnli", "--labels", *LABELS)
    assert convert("huggingface_sequence_classification", tmp_path / "out", *flags, form="keras_hub") == 1
    assert "`--task` needs a target of the format preset. Received: keras_hub" in capsys.readouterr().err

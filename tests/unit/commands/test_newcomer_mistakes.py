"""Mistakes of newcomers: each message names the cause and the next step, mostly before TensorFlow is imported."""

from __future__ import annotations

import contextlib
import json
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bert_tf import cli
from bert_tf.cli import main
from bert_tf.text.vocabulary import load_vocabulary
from tests.support.training.data_directory import MODEL, write_small_data

# A line of the command line, and parts of its message: the cause and the next step.
BEFORE_TENSORFLOW = {
    "command": ("pretrian --data data", ["'pretrian'", "did you mean `pretrain`?"]),
    "flag": ("pretrain --data data --output new --stepz 3", ["--stepz", "did you mean `--steps`?"]),
    "flag and a missing one": (
        "pretrain --data data --ouput new",
        ["required: --output", "--ouput", "did you mean `--output`?", "bert-tf pretrain --help"],
    ),
    "setting": (
        "pretrain --data data --output new --set training.learning_rat=1",
        ["`learning_rat`", "did you mean `learning_rate`?"],
    ),
    "section": (
        "pretrain --data data --output new --set trainig.seed=1",
        ["unknown section `trainig`", "did you mean `training.seed`?"],
    ),
    "no section": (
        "finetune classify --preset preset --data task --output new --set learning_rate=1",
        ["unknown section `learning_rate`", "did you mean `training.learning_rate`?"],
    ),
    "strategy of finetune": (
        "finetune classify --preset preset --data task --output new --set training.strategy=tpu",
        ["must be none or mirrored. Received: tpu", "KERAS_BACKEND=jax"],
    ),
    "task": ("finetune clasify --preset preset --data task --output new", ["'clasify'", "did you mean `classify`?"]),
    "no task": ("finetune --preset preset --data task", ["TASK must come before --preset", "bert-tf finetune --help"]),
    "recipe": ("pretrain --data data --output new --recipe laptp", ["'laptp'", "did you mean `laptop`?", "mini"]),
    "model size": ("pretrain --data data --output new --model smalll", ["'smalll'", "did you mean `small`?"]),
    "no output": ("pretrain --data data", ["required: --output", "bert-tf pretrain --help"]),
    "output with files": (
        "pretrain --data data --output thesis",
        ["thesis.tex", "Choose another output directory"],
    ),
    "output is a file": ("pretrain --data data --output corpus.txt", ["corpus.txt", "Choose another"]),
    "data of another vocabulary": (
        "evaluate --preset preset --data other",
        ["vocabulary of 15 pieces", "run `bert-tf data --vocabulary` with the word pieces of the model"],
    ),
    "initial weights of another vocabulary": (
        "pretrain --init preset --data other --output new",
        ["vocabulary of 15 pieces", "run `bert-tf data --vocabulary`"],
    ),
    "directory without manifest": (
        "pretrain --data task --output new",
        ["manifest.json is missing", "Run `bert-tf data --output task` again"],
    ),
    "text as data": (
        "pretrain --data corpus.txt --output new",
        ["a file", "bert-tf data --input corpus.txt --vocabulary vocab.txt --output DIR"],
    ),
    "preset as data": (
        "evaluate --preset preset --data preset",
        ["a preset", "the directory that `bert-tf data` wrote"],
    ),
    "preset path": (
        "finetune classify --preset preste --data task --output new",
        ["--preset 'preste' does not exist", "did you mean `preset`?"],
    ),
    "no preset": ("export --preset nothing --output new", ["'nothing' does not exist", "`bert-tf pretrain`"]),
    "SavedModel as preset": (
        "finetune classify --preset saved/classifier --data task --output new",
        ["a SavedModel", "Use the preset that it was exported from, runs/my_task"],
    ),
    "version as preset": ("export --preset saved/classifier/1 --output new", ["a SavedModel", "runs/my_task"]),
    "data as preset": ("export --preset data --output new", ["a data directory", "bert-tf pretrain --data data"]),
    "unfinished run as preset": (
        "export --preset stopped --output new",
        ["not finished", "Run the same command again"],
    ),
    "empty directory as preset": ("export --preset task --output new", ["without a config.json", "`pretrain`"]),
    "hf: of another program": (
        "finetune classify --preset hf:hub --data task --output new",
        ["a directory of transformers", "keras_hub", "Leave out `hf:`"],
    ),
    "hub name": (
        "finetune classify --preset google-bert/bert-base-uncased --data task --output new",
        ["not downloaded", "use hf:DIR"],
    ),
    "hub name after hf:": ("export --preset hf:bert-base-uncased --output new", ["not downloaded", "use hf:DIR"]),
    "step without a checkpoint": (
        "evaluate --preset going@300 --data data",
        ["100, 200", "Received: 300", "training.keep_every"],
    ),
    "step of no run": ("export --preset task@300 --output new", ["no checkpoints"]),
    "run that is not finished": ("export --preset going --output new", ["not finished", "going@100, going@200"]),
    "checkpoints of a run": ("export --preset going/checkpoints --output new", ["going@100, going@200"]),
    "transformers to serve": ("serve --model hf", ["bert-tf export --preset hf --output saved_models/NAME"]),
    "average of one preset": ("average --preset preset --output new", ["at least two presets"]),
    "average over other files": (
        "average --preset preset preset --output thesis",
        ["thesis", "Choose another directory"],
    ),
    "keep_every between checkpoints": (
        "pretrain --data data --output new --set training.keep_every=1500",
        ["training.keep_every", "multiple of `checkpoint_every`, 1000"],
    ),
    "preset to serve": (
        "serve --model preset",
        ["a preset", "bert-tf export --preset preset --output saved_models/NAME"],
    ),
    "version to serve": (
        "serve --model saved/classifier/1",
        ["a version of a model", "Use its parent", "saved/classifier"],
    ),
    "batch size": ("evaluate --preset preset --data data --batch_size 0", ["--batch_size", "at least 1"]),
    "batch size setting": (
        "pretrain --data data --output new --set training.batch_size=0",
        ["training.batch_size", "at least 1"],
    ),
    "learning rate": (
        "pretrain --data data --output new --set training.learning_rate=2e-5x",
        ["`learning_rate` must be float", "'2e-5x'", "The default is 0.0001"],
    ),
    "length": (
        "finetune classify --preset preset --data task --output new --max_sequence_length 512",
        ["the model's 32 positions", "Use a smaller value", "--init preset --set model.max_sequence_length=512"],
    ),
    "no task files": (
        "finetune classify --preset preset --data saved --output new",
        ["train.tsv, train.csv, train.jsonl", "--train and --dev"],
    ),
    "broken JSON": (
        "pretrain --data data --output new --model broken.json",
        ["broken.json", "line 1 column", "Correct or restore the file"],
    ),
    "format of convert": (
        "convert --source huggingfase hf --target preset new",
        ["--source", "'huggingfase'", "did you mean `huggingface`?", "google_tf1"],
    ),
    "strategy": ("pretrain --data data --output new --strategy miror", ["'miror'", "did you mean `mirrored`?"]),
    "precision": ("export --preset preset --output new --precision fp16", ["'fp16'", "float32, bfloat16, int8"]),
    "encoder as classifier": (
        "export --preset preset --output new --evaluate task/dev.tsv",
        ["no task.json", "bert-tf finetune TASK --preset preset"],
    ),
    "no vocabulary": (
        "tokenize --vocabulary vocabulary.txt --input corpus.txt --output new",
        ["vocabulary.txt: the vocabulary file does not exist", "bert-tf vocab --output vocabulary.txt"],
    ),
}
OF_PIPELINES = {
    "no vocabulary size": ("vocab --input corpus.txt --output v.txt", ["--vocabulary_size is required", "30522"]),
    "no vocabulary": ("data --input corpus.txt --output new", ["--vocabulary is required", "bert-tf vocab --input"]),
    "missing vocabulary": (
        "data --input corpus.txt --vocabulary v.txt --output new",
        ["v.txt: the vocabulary file does not exist", "bert-tf vocab --output v.txt"],
    ),
    "empty vocabulary": (
        "data --input corpus.txt --vocabulary empty.txt --output new",
        ["empty.txt: a vocabulary must not be empty", "Run `bert-tf vocab` again"],
    ),
    "vocabulary without [MASK]": (
        "data --input corpus.txt --vocabulary no_mask.txt --output new",
        ["without [MASK]", "Use the model's vocab.txt, or learn a vocabulary with `bert-tf vocab`"],
    ),
    "bucket without the extra": (
        "data --input gs://bucket/corpus.txt --vocabulary data/vocab.txt --output new",
        ["gs://bucket/corpus.txt", "pip install 'bert-tf[gcp]'"],
    ),
    "flag": (
        "data --input corpus.txt --max_seq_len 128",
        ["--max_seq_len", "did you mean `--max_seq_length`?", "bert-tf data --help"],
    ),
    "output with files": (
        "data --input corpus.txt --vocabulary data/vocab.txt --output thesis",
        ["thesis.tex", "Choose another directory"],
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with inputs of all kinds; models are recognised by the names of their files."""
    folder = tmp_path_factory.mktemp("mistakes")
    write_small_data(folder, "data", words=20)
    write_small_data(folder, "other", words=10)
    vocabulary = load_vocabulary(folder / "data" / "vocab.txt")
    backbone = {"class_name": "BertBackbone", "config": {"config": MODEL | {"vocabulary_size": len(vocabulary)}}}
    model = {"class_name": "BertPretrainer", "config": {"backbone": backbone}}
    files = {
        "preset/config.json": json.dumps({"format_version": 2, "model": model}),
        "preset/vocab.txt": "\n".join(vocabulary.tokens) + "\n",
        "preset/model.weights.h5": "",
        "stopped/checkpoints/1.index": "",
        "going/checkpoints/step-00000100/state.json": "{}",
        "going/checkpoints/step-00000200/state.json": "{}",
        "saved/classifier/1/saved_model.pb": "",
        "saved/classifier/1/assets.extra/model_card.json": '{"source_preset": "runs/my_task"}',
        "hf/config.json": '{"model_type": "bert"}',
        "hf/model.safetensors": "",
        "hub/config.json": '{"class_name": "BertBackbone", "config": {}}',
        "tf1/bert_model.ckpt.index": "",
        "thesis/thesis.tex": "Chapter 1",
        "task/train.tsv": "label\ttext\ngood\ta fine film\nbad\ta dull film\n",
        "task/dev.tsv": "label\ttext\nuseful\ta film\n",
        "wrong/train.tsv": "sentiment\tbody\ngood\ta fine film\n",
        "corpus.txt": "The cat sat.\n\nThe dog ran.\n",
        "empty.txt": "",
        "no_mask.txt": "[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\n",
        "broken.json": '{"hidden_dim": 32,',
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def message_of(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Returns the one-line error of a command that must fail."""
    try:
        status = main(shlex.split(line))
    except SystemExit as stop:
        status = stop.code
    captured = capsys.readouterr()
    assert status in (cli.EXIT_FAILURE, cli.EXIT_USAGE)
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    return captured.err


def reached_tensorflow(**_: bool) -> None:
    raise AssertionError("the mistake was not noticed before TensorFlow was imported")


PRESETS = ("preset", "going@100", "going@latest", "going/checkpoints/step-00000200", "hf", "hf:hf", "hub", "tf1",
           "tf1/bert_model.ckpt")  # fmt: skip


@pytest.mark.parametrize("preset", PRESETS)
def test_names_of_presets_are_accepted_before_tensorflow_is_imported(
    preset: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(cli, "import_tensorflow", reached_tensorflow)
    for line in (
        f"finetune classify --preset {preset} --data task --output new",
        f"average --preset {preset} preset --output new",
        f"convert --source preset {preset} --target huggingface new",
        f"inspect {preset}",
    ):
        with pytest.raises(AssertionError, match="before TensorFlow"):
            main([*line.split()])


@pytest.mark.parametrize(("line", "parts"), BEFORE_TENSORFLOW.values(), ids=BEFORE_TENSORFLOW)
def test_mistakes_are_detected_before_tensorflow_is_imported(
    line: str, parts: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(cli, "import_tensorflow", reached_tensorflow)
    message = message_of(line, capsys)
    assert [part for part in parts if part not in message] == [], message
    assert not (folder / "new").exists()


@pytest.mark.parametrize(("line", "parts"), OF_PIPELINES.values(), ids=OF_PIPELINES)
def test_mistakes_with_pipelines(
    line: str, parts: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    with contextlib.suppress(ImportError):
        # The extra `gcs`, with which the tests run, installs most of Google's libraries, too.
        from apache_beam.io.gcp.gcsfilesystem import GCSFileSystem

        monkeypatch.setattr(GCSFileSystem, "scheme", classmethod(lambda cls: "absent"))
    message = message_of(line, capsys)
    assert [part for part in parts if part not in message] == [], message
    assert not (folder / "new").exists()


def test_the_backend_of_keras(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    monkeypatch.setattr(cli, "import_tensorflow", reached_tensorflow)
    message = message_of("evaluate --preset preset --data data", capsys)
    assert "must be tensorflow or jax. Received: 'torch'" in message
    assert "unset KERAS_BACKEND" in message


def test_a_port_in_use(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(cli, "import_tensorflow", reached_tensorflow)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        for flags in (f"--port {port} --grpc_port -1", f"--port 0 --grpc_port {port}"):
            message = message_of(f"serve --model saved/classifier {flags}", capsys)
            assert f"cannot listen on 127.0.0.1:{port}" in message
            assert "Choose another with --port or --grpc_port" in message


def test_columns_and_labels_of_files(folder: Path) -> None:
    from bert_tf.tasks.input_errors import InputErrors
    from bert_tf.tasks.registry import task_class

    task = task_class("classify")()
    with pytest.raises(
        ValueError, match=r"no column `text`.*\['sentiment', 'body'\].*--text_columns and --label_column"
    ):
        list(task.read(folder / "wrong" / "train.tsv", InputErrors()))
    fitted = task.fit_labels(list(task.read(folder / "task" / "train.tsv", InputErrors())))
    with pytest.raises(ValueError, match=r"dev.tsv: line 2: label 'useful'.*known: bad, good.*add training examples"):
        list(fitted.read(folder / "task" / "dev.tsv", InputErrors()))


def test_tensorflow_is_not_imported(folder: Path) -> None:
    """Runs one mistake of each kind in a new process: setting, flag, path, length."""
    names = ("setting", "flag", "preset path", "length", "no task files", "preset to serve", "format of convert")
    code = """
import sys
from bert_tf.cli import main
for line in sys.argv[1:]:
    try:
        assert main(line.split()) == 1
    except SystemExit as stop:
        assert stop.code == 2
print([name for name in ("tensorflow", "keras", "apache_beam", "google.protobuf") if name in sys.modules])
"""
    command = [sys.executable, "-c", code, *(BEFORE_TENSORFLOW[name][0] for name in names)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    assert done.stdout == "[]\n"
    assert len(done.stderr.splitlines()) == len(names)

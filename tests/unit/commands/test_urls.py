"""Commands take URLs wherever they take paths; functions that do not create no directory named after a scheme."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import bert_tf
from bert_tf.cli import EXIT_FAILURE, build_parser, main
from bert_tf.commands.urls import Url, local_arguments
from bert_tf.config import ConfigError, TrainingConfig
from bert_tf.storage import Store
from tests.support.storage.faulty import create_bucket

URL = "gs://bucket/run"


def path_actions(parser: argparse.ArgumentParser) -> Iterator[tuple[argparse.ArgumentParser, argparse.Action]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                yield from path_actions(subparser)
        elif action.type is Path:
            yield parser, action


def test_every_argument_that_is_a_path_takes_urls() -> None:
    found = list(path_actions(build_parser()))
    assert len(found) > 100
    for parser, action in found:
        assert parser._get_value(action, f"{URL}/") == Url(URL)
        assert parser._get_value(action, "run") == Path("run")
        with pytest.raises(argparse.ArgumentError, match="is a URL"):
            parser._get_value(action, "file:///run")


def parsed(*argv: str) -> argparse.Namespace:
    return build_parser().parse_args(argv)


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty bucket."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BERT_TF_CACHE", str(tmp_path / "cache"))
    return create_bucket("bucket")


def test_arguments_become_local_paths_and_outputs_are_uploaded(bucket: str) -> None:
    Store(bucket).write("a/vocab.txt", b"[PAD]")
    Store(bucket).write("a/text.txt", b"text")
    flags = ("--vocabulary", f"{bucket}/a/vocab.txt", "--input", f"{bucket}/a/text.txt", "--output", f"{bucket}/b/ids")
    args = parsed("tokenize", *flags)
    with local_arguments(args) as with_urls:
        assert (args.vocabulary.read_text(), args.input.read_text()) == ("[PAD]", "text")
        args.output.write_text("1")
        summary = with_urls({"output": str(args.output), "other": f"{args.output}/preset", "lines": 1})
    assert summary == {"output": f"{bucket}/b/ids", "other": f"{bucket}/b/ids/preset", "lines": 1}
    assert Store(bucket).read("b/ids") == b"1"


def test_lists_and_formats_with_urls(bucket: str) -> None:
    Store(bucket).write("source/config.json", b"{}")
    for name in ("a", "b"):
        Store(bucket).write(f"{name}/config.json", name.encode())
    args = parsed("average", "--preset", f"{bucket}/a", f"{bucket}/b", "--output", "mean")
    with local_arguments(args):
        assert [(path / "config.json").read_text() for path in args.preset] == ["a", "b"]
    args = parsed("convert", "--source", "huggingface", f"{bucket}/source", "--target", "preset", f"{bucket}/new")
    with local_arguments(args):
        assert args.source[0] == "huggingface" and (args.source[1] / "config.json").is_file()
        assert args.target[1].name == "new"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["demo", "--output", URL], "`demo --output` must be a directory of this machine"),
        (["serve", "--model", "faulty://bucket/run"], "--model faulty://bucket/run does not exist"),
        (["evaluate", "--preset", "faulty://bucket/run", "--data", "data"], "faulty://bucket/run does not exist"),
        (["pretrain", "--data", "faulty://none/data", "--output", "run"], "the bucket 'none' does not exist"),
        (["inspect", "nothing://bucket/run"], "nothing://bucket/run"),
    ],
)
def test_commands_name_urls_that_cannot_be_used(
    argv: list[str], message: str, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == EXIT_FAILURE
    assert message in capsys.readouterr().err
    assert [path.name for path in Path().iterdir()] in ([], ["cache"])


def test_a_cache_of_features_must_be_local(bucket: str) -> None:
    args = argparse.Namespace(command="finetune", feature_cache=Url(URL))
    with pytest.raises(ConfigError, match="`--feature_cache` must be a directory of this machine"):
        local_arguments(args).__enter__()


def test_served_models_stay_at_their_urls(bucket: str) -> None:
    for name in ("a/1/saved_model.pb", "run/preset/config.json"):
        Store(bucket).write(name, b"{}")
    args = parsed("serve", "--model", f"{bucket}/a", "--port", "0", "--grpc_port", "-1")
    with local_arguments(args):
        assert args.model == [f"{bucket}/a"]
        args.check(args)
    for wrong, message in (("a/1", f"Use its parent, {bucket}/a"), ("run", "bert-tf export --preset")):
        args.model = [Url(f"{bucket}/{wrong}")]
        with pytest.raises(ConfigError, match=message):
            args.check(args)


@pytest.mark.parametrize(
    ("argv", "writes"),
    [
        (("--strategy", "multi_worker"), False),
        (("--set", "training.strategy=multi_worker"), False),
        ((), True),
    ],
)
@pytest.mark.parametrize("cluster", ["TF_CONFIG", "JAX_PROCESS_ID"])
def test_only_the_chief_writes(
    argv: tuple[str, ...], writes: bool, cluster: str, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if cluster == "TF_CONFIG":
        workers = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}
        monkeypatch.setenv("TF_CONFIG", json.dumps(workers))
    else:
        monkeypatch.setenv("JAX_PROCESS_ID", "1")
    args = parsed("pretrain", "--data", "data", "--output", f"{bucket}/run", *argv)
    with local_arguments(args):
        assert (Store(bucket).read(".run.lease") is not None) == writes


def _functions() -> dict[str, Callable[[str], Any]]:
    from bert_tf.config.files import staged_file
    from bert_tf.tasks.features.cache import FeatureFolder
    from bert_tf.tasks.features.embed import embed_file
    from bert_tf.tasks.glue.submission import bundle

    training = TrainingConfig()
    return {
        "convert": lambda url: bert_tf.convert("here", url, "preset"),
        "export_preset": lambda url: bert_tf.export_preset("here", url),
        "finetune_task": lambda url: bert_tf.finetune_task(None, None, None, training, url),
        "read_checkpoint": bert_tf.read_checkpoint,
        "bundle": lambda url: bundle("here", url),
        "embed_file": lambda url: embed_file("here", "x.txt", ["layer_1"], url),
        "FeatureFolder": FeatureFolder,
        "staged_file": lambda url: staged_file(url).__enter__(),
    }


def test_functions_refuse_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, function in _functions().items():
        with pytest.raises(ConfigError, match=f"'{URL}' is a URL") as error:
            function(URL)
        assert error, name
    assert not list(tmp_path.iterdir())


def test_functions_read_presets_from_urls(bucket: str) -> None:
    for function in (bert_tf.load_preset, bert_tf.TaskPredictor, bert_tf.BertBackbone.from_preset):
        with pytest.raises(FileNotFoundError, match=f"{bucket}/run does not exist"):
            function(f"{bucket}/run")
    with pytest.raises(FileNotFoundError, match=f"{bucket}/data does not exist"):
        bert_tf.read_manifest(f"{bucket}/data")

"""Only Beam commands and functions accept URLs; the others create no local directory named after a URL scheme."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import bert_tf
from bert_tf.cli import EXIT_FAILURE, EXIT_USAGE, build_parser, main
from bert_tf.config import BertConfig, ConfigError, TrainingConfig
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

URL = "gs://bucket/run"


def path_actions(parser: argparse.ArgumentParser) -> Iterator[tuple[argparse.ArgumentParser, argparse.Action]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                yield from path_actions(subparser)
        elif action.type is Path:
            yield parser, action


def test_every_argument_that_is_a_path_refuses_urls() -> None:
    found = list(path_actions(build_parser()))
    assert len(found) > 100
    for parser, action in found:
        with pytest.raises(argparse.ArgumentError, match="is a URL"):
            parser._get_value(action, URL)
        assert parser._get_value(action, "run") == Path("run")


@pytest.mark.parametrize(
    ("argv", "status"),
    [
        (["pretrain", "--data", "data", "--output", URL], EXIT_USAGE),
        (["evaluate", "--preset", URL, "--data", "data"], EXIT_USAGE),
        (["finetune", "cola", "--preset", "p", "--data", "d", "--output", URL], EXIT_USAGE),
        (["export", "--preset", "p", "--output", URL], EXIT_USAGE),
        (["convert", "--source", "huggingface", "here", "--target", "preset", URL], EXIT_FAILURE),
        (["convert", "--source", "huggingface", URL, "--target", "preset", "here"], EXIT_FAILURE),
    ],
)
def test_commands_refuse_urls(
    argv: list[str], status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        received = main(argv)
    except SystemExit as stop:
        received = stop.code
    assert received == status
    assert f"'{URL}' is a URL" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def _functions() -> dict[str, Callable[[str], Any]]:
    from bert_tf.config.files import staged_file
    from bert_tf.pretraining.run import run_evaluation, run_pretraining
    from bert_tf.reports.tasks.attention import attention_view
    from bert_tf.tasks.features.cache import FeatureFolder
    from bert_tf.tasks.features.embed import embed_file
    from bert_tf.tasks.glue.submission import bundle

    vocabulary, training = Vocabulary(SPECIAL_TOKENS), TrainingConfig()
    tiny = BertConfig(5, 2, 1, 1, 2, 4)
    return {
        "TaskPredictor": bert_tf.TaskPredictor,
        "BertBackbone.from_preset": bert_tf.BertBackbone.from_preset,
        "convert": lambda url: bert_tf.convert("here", url, "preset"),
        "export_preset": lambda url: bert_tf.export_preset("here", url),
        "fit": lambda url: bert_tf.fit(bert_tf.RunSpec(None, None), training, url),
        "finetune_task": lambda url: bert_tf.finetune_task(None, None, None, training, url),
        "load_preset": bert_tf.load_preset,
        "read_checkpoint": bert_tf.read_checkpoint,
        "read_manifest": bert_tf.read_manifest,
        "save_preset": lambda url: bert_tf.save_preset(bert_tf.BertBackbone(tiny), url, vocabulary, True),
        "serve": bert_tf.serve,
        "attention_view": lambda url: attention_view(url, ["x"]),
        "bundle": lambda url: bundle("here", url),
        "embed_file": lambda url: embed_file("here", "x.txt", ["layer_1"], url),
        "FeatureFolder": FeatureFolder,
        "run_evaluation": lambda url: run_evaluation(url, "data"),
        "run_pretraining": lambda url: run_pretraining("data", bert_tf.RunConfig(), url),
        "staged_file": lambda url: staged_file(url).__enter__(),
    }


def test_functions_refuse_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, function in _functions().items():
        with pytest.raises(ConfigError, match=f"'{URL}' is a URL") as error:
            function(URL)
        assert error, name
    assert not list(tmp_path.iterdir())

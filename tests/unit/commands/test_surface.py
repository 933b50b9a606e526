"""The frozen command line: a change here is a change of the interface and belongs in the CHANGELOG."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

import pytest

from bert_tf import cli
from bert_tf.cli import COMMANDS, Pipeline, build_parser, main
from bert_tf.tasks.registry import command_line_tasks, scored

PRESET = "--preset"
CORPUS = (
    "--cased --format --input --language --language_filter --max_document_bytes --max_rejected_fraction "
    "--max_repeated_lines --max_symbol_ratio --min_words --output --text_field --weights"
)
SURFACE = {
    "demo": "--input --output",
    "vocab": f"{CORPUS} --character_coverage --limit_alphabet --max_words --min_count --vocabulary_size",
    "data": f"{CORPUS} --dupe_factor --estimate --mask_share --mask_unit --masked_lm_prob --masking --max_ngram "
    "--max_predictions_per_seq --max_seq_length --max_sequence_length --near_duplicates --no_nsp --num_shards "
    "--random_next_prob --random_share --seed --short_seq_prob --validation_fraction --vocabulary",
    "pretrain": "--data --decay_from --hours --init --model --output --plan --recipe --set --steps --strategy --verify",
    "evaluate": "--batch_size --data --preset --verify",
    "finetune": "TASK",
    "glue": "--compare --data --from_scratch --max_seq_length --max_sequence_length --output --plan --preset --rates "
    "--restarts --seeds --set --skip_bad --tasks --train_wnli",
    "reproduce": "TABLE --data --keep_presets --list --output --plan --report --scale --seeds --set --steps --tasks",
    "score": "TASK",
    "predict": "--batch_size --ensemble --input --output --preset --skip_bad --top_k",
    "submission": "--output --predictions",
    "triviaqa": "--evidence --input --max_tokens --output",
    "attention": "--max_seq_length --max_sequence_length --output --preset --text --text_pair",
    "features": "--input --layers --max_seq_length --max_sequence_length --output --preset --skip_bad --task",
    "convert": "--dtype --labels --lowercase --original --padded_vocabulary --peer --regression --shard_bytes --source "
    "--target --task --text_columns --vocabulary",
    "average": "--output --preset",
    "export": "--evaluate --for_serving --max_seq_length --max_sequence_length --output --precision --preset --top_k "
    "--version",
    "serve": "--access_log --allow_reload_config --allow_version_labels_for_unavailable_models --allowed_hosts "
    "--batching_parameters_file --drain_seconds --enable_batching --enable_model_warmup "
    "--file_system_poll_wait_seconds --grpc_port --host --max_connections --max_request_bytes "
    "--max_text_bytes --max_waiting --model --model_base_path --model_config_file "
    "--model_config_file_poll_wait_seconds --model_name --monitoring_config_file --no_batching "
    "--no_warmup --num_load_threads --packed_weights --port --rest_api_port --rest_api_timeout_in_ms "
    "--ssl_config_file --tls_certificate --tls_client_authority --tls_key --token_file --trial_load --trust_models "
    "--workers",
    "tokenize": "--cased --graph --input --output --vocabulary",
    "inspect": "path",
}

LEARNING = (
    "--bilstm --bilstm_dim --feature_cache --features --from_scratch --frozen_layers --grid --max_seq_length "
    "--max_sequence_length --output --preset --probe --restarts --set --skip_bad"
)
SCORING = "--data --predictions"
SPANS = "--augment --dev --doc_stride --max_answer_length --max_query_length --n_best --train"
# Flags of `finetune` and of `score`.
OF_TASKS = {
    **dict.fromkeys(("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli", "ax"), ("--data", "")),
    "classify": (
        "--class_weights --data --dev --label_column --pooling --regression --text_columns --train --windows",
        "--label_column --regression --text_columns",
    ),
    "squad1": (SPANS, ""),
    "squad2": (SPANS, "--null_odds --null_threshold"),
    "ner": (
        "--dev --document_context --scheme --tag_column --test --token_column --train",
        "--document_context --scheme --tag_column --token_column",
    ),
    "swag": ("--dev --test --train", ""),
}


def flags(parser: argparse.ArgumentParser) -> list[str]:
    return sorted(
        option
        for action in parser._actions
        if not isinstance(action, argparse._HelpAction)
        for option in (action.option_strings or [action.metavar or action.dest])
    )


def subparser(name: str, task: str | None = None) -> argparse.ArgumentParser:
    parser = build_parser()._subparsers._group_actions[0].choices[name]
    return parser._subparsers._group_actions[0].choices[task] if task else parser


def test_commands_are_frozen() -> None:
    assert list(COMMANDS) == list(SURFACE)


@pytest.mark.parametrize("name", [name for name in SURFACE if not isinstance(COMMANDS[name], Pipeline)])
def test_flags_are_frozen(name: str) -> None:
    assert flags(subparser(name)) == sorted(SURFACE[name].split())


@pytest.mark.parametrize("task", OF_TASKS)
def test_flags_of_tasks_are_frozen(task: str) -> None:
    finetune, score = OF_TASKS[task]
    assert flags(subparser("finetune", task)) == sorted(f"{LEARNING} {finetune}".split())
    assert flags(subparser("score", task)) == sorted(f"{SCORING} {score}".split())


@pytest.mark.parametrize("task", command_line_tasks())
def test_every_task_has_the_shared_flags(task: str) -> None:
    """A new task needs no row in `OF_TASKS`, which freezes the flags of the tasks in it."""
    assert set(LEARNING.split()) <= set(flags(subparser("finetune", task)))
    assert set(SCORING.split()) <= set(flags(subparser("score", task)))


def test_flags_of_data_sets_that_are_only_scored_are_frozen() -> None:
    assert set(scored()) - set(command_line_tasks()) == {"triviaqa"}
    assert flags(subparser("score", "triviaqa")) == SCORING.split()


def test_both_names_of_the_length_are_one_flag() -> None:
    argv = ["--preset", "p", "--output", "o", "--text", "a"]
    parser = subparser("attention")
    assert parser.parse_args([*argv, "--max_seq_length", "8"]) == parser.parse_args([*argv, "--max_sequence_length=8"])


@pytest.mark.parametrize("name", ["vocab", "data"])
def test_pipeline_flags_are_frozen(name: str) -> None:
    from beam_pipelines import options

    own = {"vocab": options.VocabularyOptions, "data": options.PretrainingDataOptions}[name]
    parser = argparse.ArgumentParser(add_help=False)
    for cls in (options.CorpusOptions, own):
        cls._add_argparse_args(parser)
    assert flags(parser) == sorted(SURFACE[name].split())


@pytest.mark.parametrize("name", [name for name in SURFACE if not isinstance(COMMANDS[name], Pipeline)])
def test_every_flag_has_help(name: str) -> None:
    tasks = {"finetune": command_line_tasks(), "score": scored()}.get(name, (None,))
    assert all(action.help for task in tasks for action in subparser(name, task)._actions)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--debug", "pretrain"], "required: --data, --output. See `bert-tf pretrain --help`."),
        (["pretrian", "--data", "x"], "COMMAND: invalid choice: 'pretrian' (did you mean `pretrain`?)"),
        (["--data", "x", "pretrain"], "COMMAND must come before --data"),
        (["finetune", "--preset", "x"], "TASK must come before --preset"),
        (["pretrain", "--dat", "x", "--output", "y"], "--data; unknown flag --dat (did you mean `--data`?)"),
        (["pretrain", "--data", "x", "--output", "y", "--stepps", "3"], "--stepps (did you mean `--steps`?)"),
        (["pretrain", "--data", "x", "--output", "y", "--stepps=3"], "--stepps (did you mean `--steps`?)"),
        (["inspect", "x", "y"], "unexpected value: y"),
        (["finetune", "colla", "--preset", "p", "--data", "d", "--output", "o"], "TASK: invalid choice: 'colla' (did"),
        (["features", "--preset", "p", "--leyers", "last", "--task", "ner", "--own"], "flag --leyers (did you mean"),
        (["serve", "--model", "m", "--port", "http"], "invalid int value: 'http'"),
    ],
)
def test_a_wrong_command_line_is_refused(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == cli.EXIT_USAGE
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["pretrain", "--data", "nowhere", "--output", "y"], "--data 'nowhere' does not exist"),
        (["evaluate", "--preset", "nowhere", "--data", "y"], "--preset 'nowhere' does not exist"),
        (["inspect", "nowhere"], "PATH 'nowhere' does not exist"),
        (["data", "--max_seq_len", "128"], "--max_seq_len (did you mean `--max_seq_length`?)"),
        (["vocab", "--vocab_size", "128"], "unknown argument --vocab_size"),
    ],
)
def test_an_error_is_one_line_and_status_1(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == cli.EXIT_FAILURE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert "Traceback" not in captured.err


def test_debug_shows_the_traceback() -> None:
    with pytest.raises(FileNotFoundError):
        main(["--debug", "inspect", "nowhere"])


def test_interruption_is_status_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(arguments: list[str]) -> dict:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", interrupted)
    assert main(["inspect", "."]) == cli.EXIT_INTERRUPTED
    assert "interrupted" in capsys.readouterr().err


def test_help_does_not_import_tensorflow() -> None:
    code = (
        "import sys; from bert_tf.cli import build_parser; build_parser();"
        "print([m for m in ('tensorflow', 'keras', 'apache_beam') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_summary_is_the_last_line_of_stdout(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(cli, "_run", lambda arguments: {"output": str(tmp_path), "step": 3})
    assert main(["inspect", os.fspath(tmp_path)]) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert summary.pop("seconds") >= 0
    assert summary == {"output": str(tmp_path), "step": 3}

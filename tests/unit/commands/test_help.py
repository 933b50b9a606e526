"""`--help` lists settings, recipes and defaults; the program without a command prints its help."""

from __future__ import annotations

import argparse
import dataclasses
import re
import subprocess
from collections.abc import Iterator

import pytest

from bert_tf import __version__
from bert_tf.cli import COMMANDS, build_parser, main
from bert_tf.commands.finetune import configuration
from bert_tf.config import BertConfig, TrainingConfig
from bert_tf.pretraining.recipes import RECIPES
from tests.support.paths import REPOSITORY


def help_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as stop:
        main([*arguments, "--help"])
    assert stop.value.code == 0
    return capsys.readouterr().out


def settings_in(text: str) -> dict[str, str]:
    """Returns the default of each setting in a help text that has a meaning beside or below it."""
    return dict(re.findall(r"^  (\w+\.\w+)=(\S*)\s+\S", text, re.MULTILINE))


def test_help_of_pretrain_lists_all_settings_and_recipes(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(["pretrain"], capsys)
    expected = {f"training.{field.name}" for field in dataclasses.fields(TrainingConfig)} - {"training.epochs"}
    expected |= {f"model.{field.name}" for field in dataclasses.fields(BertConfig)}
    settings = settings_in(text)
    assert settings.keys() == expected
    assert (settings["training.warmup_steps"], settings["training.padding"]) == ("-1", "full")
    recipes = text.partition("\nrecipes:\n")[2].partition("\n\n")[0]
    assert re.findall(r"^  (\w+)", recipes, re.MULTILINE) == list(RECIPES)
    assert "108 minutes" in recipes and "not run here" in recipes


@pytest.mark.parametrize(
    ("task", "defaults"),
    [
        # arXiv 1810.04805, sections 4.1 to 4.4; named entities and your own texts have the middle of A.3's grid.
        ([], ("3e-05", "32", "3")),
        (["classify"], ("3e-05", "32", "3")),
        (["mnli"], ("3e-05", "32", "3")),
        (["ner"], ("3e-05", "32", "3")),
        (["squad1"], ("5e-05", "32", "3")),
        (["squad2"], ("5e-05", "48", "2")),
        (["swag"], ("2e-05", "16", "3")),
    ],
)
def test_help_of_finetune_lists_the_settings_with_their_defaults(
    task: list[str], defaults: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    text = help_of(["finetune", *task], capsys)
    others = text.partition("\ndefaults of other tasks:\n")[2]
    assert re.findall(r"^  (\w+) ", others, re.MULTILINE) == ([] if task else ["squad1", "squad2", "swag"])
    settings = settings_in(text.removesuffix(others))
    without = {"steps", "evaluate_every", "objective", "nsp_weight", "mask_share", "random_share"}
    assert settings.keys() == {
        f"training.{field.name}" for field in dataclasses.fields(TrainingConfig) if field.name not in without
    }
    names = ("learning_rate", "batch_size", "epochs")
    assert tuple(settings[f"training.{name}"] for name in names) == defaults


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], (5e-5, 48, 2)),
        (["--set", "training.batch_size=8"], (5e-5, 8, 2)),
        (["--features", "last"], (1e-3, 32, 10)),
    ],
)
def test_settings_replace_the_defaults_of_the_task(flags: list[str], expected: tuple) -> None:
    files = ["--preset", "p", "--train", "t", "--dev", "d", "--output", "o"]
    config = configuration(build_parser().parse_args(["finetune", "squad2", *files, *flags]))
    assert (config.learning_rate, config.batch_size, config.epochs) == expected


@pytest.mark.parametrize("name", ["vocab", "data"])
def test_pipelines_show_their_names_and_defaults(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of([name], capsys)
    assert text.startswith(f"usage: bert-tf {name} ")
    assert "default: text" in text
    assert "required: " in text


def test_program_without_command_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    text = capsys.readouterr().out
    assert text.startswith("usage: bert-tf ")
    assert all(command in text for command in COMMANDS)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert (stop.value.code, capsys.readouterr().out) == (0, f"bert-tf {__version__}\n")


def arguments_of(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                yield from arguments_of(subparser)


def test_every_default_is_in_the_help() -> None:
    actions = list(arguments_of(build_parser(pipelines=True)))
    assert len(actions) > 300
    without = [
        action.option_strings
        for action in actions
        if action.default not in (None, False, "", [], argparse.SUPPRESS)
        and not re.search("default|required", action.help or "")
    ]
    assert without == []


def test_every_flag_is_in_the_documentation() -> None:
    text = (REPOSITORY / "docs" / "cli.md").read_text(encoding="utf-8")
    flags = {flag for action in arguments_of(build_parser(pipelines=True)) for flag in action.option_strings}
    assert len(flags) > 120
    assert [flag for flag in sorted(flags - {"-h", "--help"}) if f"`{flag}`" not in text] == []


TRY = """
source "$1"
COMP_WORDS=("${@:2}"); COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )); COMP_LINE="${*:2}"
_shtab_bert_tf
printf '%s\\n' "${COMPREPLY[@]}"
"""


def test_the_shell_completes_commands_flags_choices_and_settings(tmp_path, capsys) -> None:
    with pytest.raises(SystemExit):
        main(["--completion", "bash"])
    script = tmp_path / "completion"
    script.write_text(capsys.readouterr().out)

    def completions(*words: str) -> list[str]:
        command = ["bash", "-c", TRY, "bash", str(script), "bert-tf", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout.split()

    assert completions("pre") == ["pretrain", "predict"]
    assert completions("finetune", "squ") == ["squad1", "squad2"]
    assert completions("pretrain", "--recipe", "mini") == ["mini"]
    assert completions("pretrain", "--set", "training.seed=3", "training.warm") == ["training.warmup_steps="]
    assert completions("finetune", "ner", "--set", "training.pat") == ["training.patience="]
    assert completions("vocab", "--vocabulary") == ["--vocabulary_size"]
    assert completions("inspect", "comp") == ["completion"]

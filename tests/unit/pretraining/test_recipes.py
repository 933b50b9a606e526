"""Recipes: the commands, data and computed times of docs/recipes.md."""

from __future__ import annotations

import json
import math
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from bert_tf.cli import build_parser
from bert_tf.commands.pretrain import configuration, data_difference
from bert_tf.config import ConfigError, DataConfig, RunConfig, from_dict, to_dict
from bert_tf.pretraining.recipes import EXPECTED_DATA, RECIPES, ExpectedData, recipe
from bert_tf.text.vocabulary import load_vocabulary, save_vocabulary
from bert_tf.training.logging.flops import step_flops
from bert_tf.training.validation import check_batch
from tests.support.paths import REPOSITORY
from tests.support.training.data_directory import MODEL, write_small_data

TEXT = (REPOSITORY / "docs" / "recipes.md").read_text(encoding="utf-8")
LARGE_BATCHES = ("mosaic", "large_lamb", "large_lamb_512")
# Eight A100 at 40 % of their bfloat16 peak; USD for a GPU hour.
DEVICES, FLOPS, COST = 8, 0.4 * 312e12, 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data, and a run whose weights are not read."""
    folder = tmp_path_factory.mktemp("recipes")
    data = write_small_data(folder, words=20)
    vocabulary = load_vocabulary(data / "vocab.txt")
    (folder / "preset").mkdir()
    save_vocabulary(vocabulary, folder / "preset" / "vocab.txt")
    config = {"config": MODEL | {"vocabulary_size": len(vocabulary)}}
    model = {"class_name": "BertPretrainer", "config": {"backbone": {"class_name": "BertBackbone", "config": config}}}
    header = {"format_version": 2, "model": model, "lowercase": True, "vocabulary_sha256": vocabulary.fingerprint}
    (folder / "preset" / "config.json").write_text(json.dumps(header))
    (folder / "preset" / "model.weights.h5").touch()
    return folder


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_a_valid_configuration(name: str) -> None:
    run = recipe(name)
    assert from_dict(RunConfig, to_dict(run)) == run
    assert run.training.resolved_warmup(run.training.steps) < run.training.steps
    if name in LARGE_BATCHES:
        check_batch(run.training, DEVICES)
    if name in EXPECTED_DATA:
        assert f"data {EXPECTED_DATA[name].flags}" in " ".join((RECIPES[name].__doc__ or "").split())
        assert max(EXPECTED_DATA[name].lengths) <= run.model.max_sequence_length


def test_the_commands_of_the_document_are_valid(folder: Path) -> None:
    commands = re.findall(r"^bert-tf (pretrain .*)$", TEXT, re.MULTILINE)
    for command in commands:
        args = build_parser().parse_args(shlex.split(command))
        args.data = folder / "data"
        if args.init:
            args.init = str(folder / "preset")
        training = configuration(args).training
        assert training == replace(recipe(args.recipe).training, strategy=training.strategy)
    assert {*LARGE_BATCHES, "paper"} == {re.search(r"--recipe (\w+)", command)[1] for command in commands}  # type: ignore[index]
    assert all(f"{EXPECTED_DATA[name].flags}\n" in TEXT for name in (*LARGE_BATCHES, "paper"))


@pytest.mark.parametrize("name", ["paper", "paper_large", *LARGE_BATCHES])
def test_the_times_of_the_document_are_computed_from_operations(name: str) -> None:
    run, data = recipe(name), EXPECTED_DATA[name]
    model = run.model if data.next_sentence else replace(run.model, pooler=False)
    shares = (1.0,) if len(data.lengths) == 1 else (1 - run.training.long_share, run.training.long_share)
    operations = sum(
        share * run.training.steps
        * step_flops(model, run.training.batch_size, length, math.ceil(data.masked_lm_prob * length))
        for share, length in zip(shares, data.lengths, strict=True)
    )  # fmt: skip
    hours = operations / (DEVICES * FLOPS) / 3600
    row = re.search(rf"^\| `{name}` \| (\S+) \| (\S+) h \| (\S+) USD \|", TEXT, re.MULTILINE)
    assert row
    assert float(row[1]) == pytest.approx(operations, rel=0.03)
    assert float(row[2]) == pytest.approx(hours, abs=0.06)
    assert float(row[3]) == pytest.approx(hours * DEVICES * COST, abs=1)
    assert f"computed: {row[2]} hours on 8 A100" in " ".join((RECIPES[name].__doc__ or "").split())


def test_data_of_another_kind_is_named(folder: Path) -> None:
    assert data_difference("laptop", folder / "data") is None
    message = str(data_difference("mosaic", folder / "data"))
    assert "`bert-tf data --max_seq_length 128 --masked_lm_prob 0.3 --no_nsp`" in message
    assert message.endswith("Received: --max_seq_length 32")


def test_expected_data_describes_existing_data() -> None:
    short, long = (DataConfig(max_seq_length=length) for length in (128, 512))
    assert ExpectedData.of([short, long]) == EXPECTED_DATA["paper"] != ExpectedData.of([short])
    modern = replace(short, masked_lm_prob=0.3, max_predictions_per_seq=39, next_sentence=False)
    assert ExpectedData.of([modern]) == EXPECTED_DATA["mosaic"]
    assert ExpectedData.of([replace(modern, next_sentence=True)]) != EXPECTED_DATA["mosaic"]


def test_a_left_to_right_model_takes_no_share_of_masks_from_a_recipe(folder: Path) -> None:
    flags = ["pretrain", "--recipe", "laptop", "--data", str(folder / "data"), "--output", "run", "--set"]
    causal = ["model.attention=left_to_right", "training.objective=causal_lm", "training.nsp_weight=0"]
    assert configuration(build_parser().parse_args([*flags, *causal])).training.masked_lm_shares is None
    with pytest.raises(ConfigError, match="`training.masked_lm_prob` has no effect"):
        configuration(build_parser().parse_args([*flags, *causal, "training.masked_lm_prob=0.2"]))

"""Configurations are strict, frozen, and round-trip."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bert_tf.config import (
    BertConfig,
    ConfigError,
    DataConfig,
    RunConfig,
    TrainingConfig,
    from_dict,
    load_json,
    save_json,
    to_dict,
    with_overrides,
)
from bert_tf.config.base import parse_json
from bert_tf.config.model import SIZES
from bert_tf.config.training import check_finetuning


@pytest.mark.parametrize("config", [BertConfig(), DataConfig(seed=3), TrainingConfig(), RunConfig()])
def test_json_round_trip(config: object, tmp_path: Path) -> None:
    save_json(config, tmp_path / "config.json")
    assert load_json(type(config), tmp_path / "config.json") == config


@pytest.mark.parametrize(
    ("cls", "mapping", "message"),
    [
        (BertConfig, {"hiden_dim": 4}, "unknown key `hiden_dim` .did you mean `hidden_dim`"),
        (BertConfig, {"hidden_dim": "4"}, "`hidden_dim` must be int. Received: '4'"),
        (BertConfig, {"hidden_dim": True}, "`hidden_dim` must be int. Received: True"),
        (BertConfig, {"hidden_dim": 10, "num_heads": 3}, "multiple of `num_heads`"),
        (BertConfig, {"activation": "swish"}, "`activation` must be one of"),
        (BertConfig, {"num_layers": 0}, "`num_layers` must be at least 1. Received: 0"),
        (BertConfig, {"num_layers": 10**9}, "`num_layers` must be at most 1000. Received: 1000000000"),
        (BertConfig, {"hidden_dim": 12 * 10**6}, "at most 1e[+]11 parameters"),
        (BertConfig, {"vocabulary_size": 10**300}, "`vocabulary_size` must be at most"),
        (BertConfig, {"initializer_range": float("inf")}, "`initializer_range` must be a finite number"),
        (BertConfig, {"initializer_range": 10**400}, "`initializer_range` must be a finite number"),
        (BertConfig, {"initializer_range": 0.0}, "`initializer_range` must be a positive number"),
        (BertConfig, {"layer_norm_epsilon": -1e-12}, "`layer_norm_epsilon` must be a positive number"),
        (BertConfig, {"dropout": float("nan")}, "`dropout` must be a finite number"),
        (BertConfig, {"dropout": 1.0}, "`dropout`"),
        (BertConfig, {"attention": "sideways"}, "`attention`"),
        (DataConfig, {"masking": "both"}, "`masking`"),
        (DataConfig, {"max_predictions_per_seq": 200}, "must not exceed `max_seq_length`"),
        (DataConfig, {"max_ngram": 129}, "`max_ngram` must not exceed `max_seq_length`. Received: 129 and 128"),
        (DataConfig, {"mask_share": 0.9, "random_share": 0.2}, "must not exceed 1"),
        (DataConfig, {"seed": -1}, "`seed`"),
        (DataConfig, {"validation_fraction": 1.0}, "`validation_fraction`"),
        (TrainingConfig, {"precision": "fp8"}, "`training.precision`"),
        (TrainingConfig, {"strategy": "parameter_server"}, "`training.strategy`"),
        (TrainingConfig, {"learning_rate": 0.0}, "`training.learning_rate`"),
        (TrainingConfig, {"batch_size": 0}, "`training.batch_size`"),
        (RunConfig, {"model": {"hidden": 3}}, "unknown key `hidden`"),
    ],
)
def test_bad_fields_are_named(cls: type, mapping: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_dict(cls, mapping)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0, -0.02, 1e39])
def test_numbers_of_a_model_are_positive_and_finite(value: float) -> None:
    with pytest.raises(ConfigError, match="`initializer_range` must be a positive number"):
        BertConfig(initializer_range=value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_of_a_run_are_finite(value: float) -> None:
    with pytest.raises(ConfigError, match="`training.weight_decay` must be a finite number"):
        TrainingConfig(weight_decay=value)


def test_parameters_are_counted() -> None:
    # As published: 110M and 340M (arXiv 1810.04805, section 3).
    assert BertConfig().num_parameters == 109_482_240
    assert BertConfig.from_size("large").num_parameters == 335_141_888


def test_nesting_depth_is_limited() -> None:
    assert parse_json("[" * 100 + "]" * 100)
    for text in ("[" * 101 + "]" * 101, '{"a":' * 101 + "1" + "}" * 101, "[" * 200_000 + "]" * 200_000):
        with pytest.raises(ValueError, match="at most 100 levels"):
            parse_json(text)


LONG = [pytest.param("[" * 200_000, id="deep"), pytest.param('{"hidden_dim": ' + "9" * 5000 + "}", id="digits")]


@pytest.mark.parametrize("text", ["", "[1]", "{", "\xff", *LONG])
def test_bad_files_are_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match="config.json"):
        load_json(BertConfig, path)


def test_overrides_reach_nested_fields_and_keep_types() -> None:
    sizes = with_overrides(RunConfig(), ["model.hidden_dim=1024", "model.num_heads=16"]).model
    assert (sizes.hidden_dim, sizes.num_heads) == (1024, 16)
    run = with_overrides(RunConfig(), ["training.seed=7", "training.learning_rate=1", "model.attention=left_to_right"])
    assert (run.training.seed, run.training.learning_rate, run.model.attention) == (7, 1.0, "left_to_right")
    assert RunConfig().training.seed == 12345


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.seed", "expected `section.field=value`"),
        ("training.sed=1", "did you mean `seed`"),
        ("training=1", "`training` is a section"),
        ("training.seed.x=1", "`seed` has no fields"),
        ("training.seed=1.5", "`seed` must be int. Received: 1.5"),
        ("training.batch_size=-4", "`training.batch_size` must be at least 1"),
    ],
)
def test_bad_overrides_are_named(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        with_overrides(RunConfig(), [override])


def test_sizes() -> None:
    assert len([name for name in SIZES if name.startswith("L")]) == 24
    base = BertConfig.from_size("base")
    assert base == BertConfig()
    large = BertConfig.from_size("large", vocabulary_size=100)
    assert (large.num_layers, large.hidden_dim, large.num_heads, large.intermediate_dim) == (
        24,
        1024,
        16,
        4096,
    )
    assert BertConfig.from_size("tiny") == BertConfig.from_size("L2_H128")
    with pytest.raises(ConfigError, match="unknown model size 'huge'"):
        BertConfig.from_size("huge")


def test_original_names_are_read(tmp_path: Path) -> None:
    original = {
        "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 128,
        "initializer_range": 0.02, "intermediate_size": 512, "max_position_embeddings": 512,
        "num_attention_heads": 2, "num_hidden_layers": 2, "type_vocab_size": 2, "vocab_size": 30522,
    }  # fmt: skip
    path = tmp_path / "bert_config.json"
    path.write_text(json.dumps(original))
    assert BertConfig.from_name_or_path(str(path)) == BertConfig.from_size("tiny")
    with pytest.raises(ConfigError, match="`vocabulary_size` must be 99 here. Received: 30522"):
        BertConfig.from_name_or_path(str(path), vocabulary_size=99)
    with pytest.raises(ConfigError, match="given twice"):
        BertConfig.from_mapping(original | {"hidden_dim": 128})
    apart = BertConfig.from_mapping(original | {"attention_probs_dropout_prob": 0.2})
    assert (apart.dropout, apart.attention_dropout) == (0.1, 0.2)
    with pytest.raises(ConfigError, match=r"`attention_dropout` must be in \[0, 1\)"):
        BertConfig.from_mapping(original | {"attention_probs_dropout_prob": 1.0})
    with pytest.raises(ConfigError, match="neither a JSON file nor a known model size"):
        BertConfig.from_name_or_path("nowhere.json")


@pytest.mark.parametrize(("warmup", "expected"), [(-1, 10), (0, 0), (7, 7)])
def test_warmup_defaults_to_a_tenth(warmup: int, expected: int) -> None:
    assert TrainingConfig(warmup_steps=warmup).resolved_warmup(100) == expected


@pytest.mark.parametrize(("field", "value"), [("batch_size", "16:64"), ("masked_lm_prob", "0.3:0.15")])
def test_fine_tuning_takes_one_number(field: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"`training.{field}` must be one number in fine-tuning. Received: {value}"):
        check_finetuning(TrainingConfig(**{field: value}))
    check_finetuning(TrainingConfig(batch_size=16))


def test_texts_of_switches_need_no_quotes() -> None:
    run = with_overrides(RunConfig(), ["training.jit_compile=true", "training.pad_vocabulary=false"])
    assert (run.training.jit_compile, run.training.pad_vocabulary) == ("true", "false")


def test_another_body_keeps_fields_that_were_set() -> None:
    own = BertConfig(hidden_dim=128, num_heads=2, intermediate_dim=500, activation="relu")
    modern = with_overrides(RunConfig(model=own), ["model.body=modern"]).model
    assert (modern.intermediate_dim, modern.activation, modern.positions) == (500, "relu", "rotary")
    named = BertConfig.from_size("tiny")
    assert named.with_changes(body="modern") == BertConfig.from_size("modern_tiny")
    assert named.with_changes(body="modern").with_changes(body="bert") == named
    assert named.with_changes(hidden_dim=64, num_heads=1).intermediate_dim == 512


def test_to_dict_is_plain() -> None:
    assert json.loads(json.dumps(to_dict(RunConfig())))["model"]["hidden_dim"] == 768

"""Flags: refused flags, flags passed to Beam, and the selected runner."""

from __future__ import annotations

from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from beam_pipelines.options import (
    CorpusOptions,
    PretrainingDataOptions,
    VocabularyOptions,
    corpus_of,
    data_configs,
    parse,
    read_settings,
)
from beam_pipelines.runners.select import runner_flags
from beam_pipelines.sources.documents import ReadSettings
from bert_tf.config import CleaningConfig, ConfigError, DataConfig

REQUIRED = ["--input=a", "--output=b"]
CLASSES = (CorpusOptions, PretrainingDataOptions)
LARGE = 1 << 30


def test_flags_without_values_give_the_default_config() -> None:
    args, rest = parse(REQUIRED, "data", CLASSES)
    assert data_configs(args) == [DataConfig()]
    assert read_settings(args) == ReadSettings()
    assert rest == []


def test_beam_flags_pass_through() -> None:
    beam = ["--runner", "FlinkRunner", "--flink_master=[local]", "--parallelism=2", "--direct_num_workers", "2"]
    args, rest = parse([*REQUIRED, *beam, "--seed", "7", "--cased"], "data", CLASSES)
    assert rest == beam
    assert data_configs(args) == [DataConfig(seed=7, lowercase=False)]


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--max_seq_len=64", "unknown argument --max_seq_len .*max_seq_length"),
        ("--maskin=static", "unknown argument --maskin .*--masking"),
        ("--runer=x", "unknown argument --runer .*--runner"),
        ("--vocabulary_size=5", "unknown argument --vocabulary_size"),
        ("stray", "unknown argument stray"),
        ("--seed=x", "--seed"),
        ("--max_rejected_fraction=2", "--max_rejected_fraction must be"),
        ("--max_document_bytes=0", "--max_document_bytes must be"),
        ("--direct_num_workers=x", "--direct_num_workers"),
        ("--s3_endpoint_url=http://localhost", "--s3_endpoint_url has no effect.*AWS_ENDPOINT_URL"),
    ],
)
def test_bad_flags_are_refused(flag: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse([*REQUIRED, flag], "data", CLASSES)


def test_errors_show_no_secret() -> None:
    with pytest.raises(ConfigError) as refused:
        parse([*REQUIRED, "--s3_secret_access_key", "hidden"], "data", CLASSES)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--max_seq_length=512"], [(512, 77)]),
        (["--max_seq_length=128,512"], [(128, 20), (512, 77)]),
        (["--max_sequence_length=64", "--masked_lm_prob=0.5"], [(64, 32)]),
        (["--max_seq_length=128,512", "--masked_lm_prob=0.4"], [(128, 52), (512, 205)]),
        (["--max_seq_length=128", "--masked_lm_prob=0.4", "--max_predictions_per_seq=51"], [(128, 51)]),
        (["--max_seq_length=128, 512", "--max_predictions_per_seq=20,76"], [(128, 20), (512, 76)]),
    ],
)
def test_max_predictions_defaults_to_a_fraction_of_the_length(
    flags: list[str], expected: list[tuple[int, int]]
) -> None:
    args, _ = parse([*REQUIRED, *flags], "data", CLASSES)
    configs = data_configs(args)
    assert [(config.max_seq_length, config.max_predictions_per_seq) for config in configs] == expected


@pytest.mark.parametrize(
    "flags",
    [
        ["--max_seq_length=128,128"],
        ["--max_seq_length=128,512", "--max_predictions_per_seq=20"],
        ["--max_seq_length="],
        ["--max_seq_length=128,x"],
        ["--max_predictions_per_seq=x"],
    ],
)
def test_invalid_lengths_are_refused(flags: list[str]) -> None:
    args, _ = parse([*REQUIRED, *flags], "data", CLASSES)
    with pytest.raises(ConfigError, match="--max_.* must .*Received: "):
        data_configs(args)


def test_too_few_predictions_are_refused_with_the_right_number() -> None:
    flags = ["--max_seq_length=128,512", "--masked_lm_prob=0.3", "--max_predictions_per_seq=39,77"]
    args, _ = parse([*REQUIRED, *flags], "data", CLASSES)
    with pytest.raises(ConfigError, match=r"153 for 0.3 of 512 tokens\. Received: 77\. Leave it out to use 154"):
        data_configs(args)


def test_flags_of_masks_and_cleaning() -> None:
    flags = ["--no_nsp", "--mask_unit=span", "--max_ngram=4", "--min_words=5", "--near_duplicates=0.8"]
    args, _ = parse([*REQUIRED, *flags, "--language=de", "--language_filter"], "data", CLASSES)
    cleaning = CleaningConfig(language_filter=True, min_words=5, near_duplicates=0.8)
    wanted = DataConfig(next_sentence=False, mask_unit="span", max_ngram=4, cleaning=cleaning, language="de")
    assert data_configs(args) == [wanted]


def test_an_estimate_needs_no_output() -> None:
    args, _ = parse(["--input=a", "--estimate"], "data", CLASSES)
    assert args.estimate


def test_the_language_filter_needs_a_language(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    args, _ = parse(
        [f"--input={tmp_path}/a.txt", "--output=b", "--language=none", "--language_filter"], "data", CLASSES
    )
    with pytest.raises(ConfigError, match="none"):
        corpus_of(args)


@pytest.mark.parametrize("missing", ["input", "output"])
def test_input_and_output_are_required(missing: str) -> None:
    with pytest.raises(ConfigError, match=f"--{missing} is required"):
        parse([flag for flag in REQUIRED if missing not in flag], "data", CLASSES)


def test_python_docs_need_no_input() -> None:
    args, _ = parse(["--output=b", "--format=python_docs"], "data", CLASSES)
    assert args.input == ""


@pytest.mark.parametrize(
    ("given", "size", "expected"),
    [
        ([], 0, {"runner": "FnApiRunner", "direct_running_mode": "in_memory", "direct_num_workers": 1}),
        ([], LARGE, {"runner": "FnApiRunner", "direct_running_mode": "multi_processing"}),
        (["--direct_num_workers=3"], 0, {"direct_running_mode": "multi_processing", "direct_num_workers": 3}),
        (["--direct_running_mode", "in_memory"], LARGE, {"direct_running_mode": "in_memory"}),
        (["--runner=DataflowRunner"], LARGE, {"runner": "DataflowRunner", "direct_num_workers": 1}),
    ],
)
def test_runner_must_be_able_to_read_the_input(given: list[str], size: int, expected: dict[str, object]) -> None:
    options = PipelineOptions([*given, *runner_flags(given, size)]).get_all_options()
    assert {name: options[name] for name in expected} == expected


def test_multi_threading_is_refused() -> None:
    with pytest.raises(ConfigError, match="loses records silently"):
        runner_flags(["--direct_running_mode=multi_threading"], 0)


def test_options_do_not_conflict_with_those_of_beam() -> None:
    options = PipelineOptions([*REQUIRED, "--vocabulary_size=9"])
    assert options.get_all_options()["vocabulary_size"] == 9
    assert options.view_as(VocabularyOptions).vocabulary_size == 9

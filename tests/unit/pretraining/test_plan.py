"""The recipe `auto`: its fit, its plan, and the choice that a run keeps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import scaling
from bert_tf.cli import EXIT_FAILURE, main
from bert_tf.config import ConfigError, DataConfig, RunConfig
from bert_tf.pretraining import plan as plan_module
from bert_tf.pretraining.plan import expected_perplexity, make_plan, planned_run, worth
from bert_tf.pretraining.recipes import of_size
from tests.support.data.samples import make_vocabulary, write_directory

VOCABULARY = make_vocabulary()
DATA = DataConfig(max_seq_length=32)
SIZES = ("tiny", "mini", "small")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_directory(folder, DATA, VOCABULARY, {"train": [60, 40], "validation": [9]})
    return folder


@pytest.fixture
def speeds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replaces the timing by 100 GFLOP/s, and returns the sizes that are timed."""
    timed: list[str] = []

    def rate(folder, manifest, size, strategy, steps):
        timed.append(size)
        return 1e11

    monkeypatch.setattr(plan_module, "_timed", rate)
    return timed


def test_the_constants_are_the_fit_of_the_runs() -> None:
    law = scaling.fit(scaling.RUNS)
    constants = [getattr(plan_module, name) for name in ("FLOOR", "OF_SIZE", "SIZE_POWER", "OF_WORDS", "WORDS_POWER")]
    assert list(vars(law).values()) == pytest.approx(constants, abs=6e-4)
    assert max(run.words for run in scaling.RUNS) == pytest.approx(plan_module.MEASURED_WORDS, rel=0.05)


def test_each_run_is_within_the_spread_of_the_fit_of_the_others() -> None:
    for run in scaling.RUNS:
        expected = scaling.fit([other for other in scaling.RUNS if other is not run]).perplexity(run)
        assert 1 / (1 + plan_module.SPREAD) < run.perplexity / expected < 1 + plan_module.SPREAD


@given(st.floats(0.1, 1e3), st.floats(0.1, 1e4), st.floats(1, 3))
def test_more_words_and_larger_models_are_expected_to_be_better(layers: float, words: float, pieces: float) -> None:
    one = expected_perplexity(layers, words, pieces)
    assert expected_perplexity(2 * layers, words, pieces) < one
    assert expected_perplexity(layers, 2 * words, pieces) < one


@given(st.floats(0.01, 1e4), st.floats(0.01, 1e4))
def test_repeated_words_are_worth_less_than_new_ones(words: float, unique: float) -> None:
    value = worth(words, unique)
    assert value <= words * (1 + 1e-9)
    assert value == pytest.approx(words) if words <= unique else unique <= value <= 18 * unique
    assert worth(2 * words, unique) >= value


def test_the_plan_takes_the_hours_and_lists_the_best_size_first(data: Path, speeds: list[str]) -> None:
    plan = make_plan(data, 0.5, SIZES)
    perplexities = [candidate.perplexity for candidate in plan.candidates]
    assert perplexities == sorted(perplexities)
    assert {candidate.size for candidate in plan.candidates} == set(SIZES)
    for candidate in plan.candidates:
        assert 0.9 * 1800 < candidate.run.training.steps * candidate.seconds < 1800
        assert candidate.run.model.vocabulary_size == len(VOCABULARY)
        assert candidate.run.training.batch_size == 128
    assert speeds == ["tiny", "mini", "small"]


def test_a_size_that_does_not_fit_into_the_time_is_left_out(data: Path, speeds: list[str]) -> None:
    assert [candidate.size for candidate in make_plan(data, 0.005, SIZES).candidates] == ["tiny"]
    with pytest.raises(ConfigError, match="Choose more hours"):
        make_plan(data, 1e-5, SIZES)


def test_a_run_keeps_its_plan(data: Path, speeds: list[str], tmp_path: Path) -> None:
    first = planned_run(tmp_path / "run", data, 0.2, SIZES, "none")
    speeds.clear()
    assert planned_run(tmp_path / "run", data, 0.7, SIZES, "none") == first
    assert speeds == []


def test_static_masks_are_refused(tmp_path: Path) -> None:
    static = replace(DATA, masking="static", max_predictions_per_seq=0)
    write_directory(tmp_path, static, VOCABULARY, {"train": [9], "validation": [9]})
    with pytest.raises(ConfigError, match="dynamic masks.*Run `bert-tf data --masking dynamic`"):
        make_plan(tmp_path, 1.0, SIZES)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--recipe", "auto"], "needs --hours"),
        (["--recipe", "auto", "--hours", "-1"], "needs --hours, a positive number"),
        (["--hours", "1"], "--hours needs --recipe auto"),
        (["--plan"], "--plan needs --recipe auto"),
        (["--recipe", "auto", "--hours", "1", "--steps", "9"], "--steps does not go with --recipe auto"),
        (["--recipe", "auto", "--hours", "1", "--model", "L4_H256"], "--model must be one of tiny, mini"),
        (["--recipe", "auto", "--hours", "1", "--strategy", "tpu"], "--strategy must be none or mirrored"),
        (["--recipe", "auto", "--hours", "1", "--set", "training.objective=causal_lm"], "whose fit is of masked words"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(data: Path, tmp_path: Path, capsys, flags, message) -> None:
    arguments = ["pretrain", "--data", str(data), "--output", str(tmp_path / "run"), *flags]
    assert main(arguments) == EXIT_FAILURE
    assert message in capsys.readouterr().err


def test_the_command_prints_the_plan_and_stops(data: Path, speeds: list[str], tmp_path: Path, capsys) -> None:
    output = tmp_path / "run"
    arguments = ["pretrain", "--data", str(data), "--output", str(output), "--recipe", "auto", "--hours", "0.1"]
    assert main([*arguments, "--model", "tiny", "--plan"]) == 0
    captured = capsys.readouterr()
    assert "-> tiny: " in captured.err
    assert '"model": "tiny"' in captured.out
    assert not output.exists()


def test_recipes_are_those_of_their_sizes() -> None:
    large = of_size("medium", 100, length=512)
    assert isinstance(large, RunConfig)
    assert (large.model.body, large.training.batch_size) == ("modern", 8)
    assert of_size("base", 100).training.matrix_learning_rate == 0.002

"""The course of a run: batch sizes, shares of masks and lengths by the number of the batch."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.config import BertConfig, ConfigError, DataConfig, RunConfig, TrainingConfig
from bert_tf.data.input import pretraining_data
from bert_tf.data.input.bins import GROUP
from bert_tf.data.input.numpy import pretraining_batches
from bert_tf.data.manifest import Manifest
from bert_tf.data.masking.tokens import prediction_counts
from bert_tf.data.schema import MASK_POSITIONS, MLM_LOGITS, PADDING_MASK, TOKEN_IDS
from bert_tf.pretraining import course as course_module
from bert_tf.pretraining.course import MASK_STAGES, Course, Stage, open_phases, stages_of
from bert_tf.training.losses import pretraining_objective
from tests.support.data.samples import make_vocabulary, write_directory

VOCABULARY = make_vocabulary()
DATA = DataConfig(max_seq_length=48, masked_lm_prob=0.3)
MODEL = BertConfig(len(VOCABULARY), 8, 1, 2, 16, max_sequence_length=48)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    directory = tmp_path_factory.mktemp("data")
    write_directory(directory, DATA, VOCABULARY, {"train": [60, 41], "validation": [9]})
    return directory


def course_of(data, **training) -> Course:
    run = RunConfig(MODEL, TrainingConfig(**({"steps": 12, "seed": 3} | training)))
    objective = pretraining_objective(run.training.objective)
    return Course(open_phases(data, run)[0], run, objective)


def phases(tmp_path, count=1):
    config = [DataConfig(max_seq_length=length) for length in (16, 32)]
    shards = {"train": (), "validation": ()}
    return [(tmp_path / str(n), Manifest(config[n], "", 10, shards, {})) for n in range(count)]


def shape_of(stage: Stage) -> tuple[int, int, float | None, int]:
    return stage.first, stage.batch_size, stage.masked_lm_prob, stage.rows_before


def test_a_plain_run_has_one_stage(tmp_path):
    assert [*map(shape_of, stages_of(phases(tmp_path), TrainingConfig()))] == [(0, 32, None, 0)]


@pytest.mark.parametrize(
    ("value", "expected"), [(8, (8,)), ("8:8", (8,)), ("4:16", (4, 8, 16)), ("16:96", (16, 32, 64, 96))]
)
def test_batch_sizes_are_doubled_up_to_the_last_one(value, expected):
    assert TrainingConfig(batch_size=value).batch_sizes == expected


def test_each_batch_size_takes_as_many_steps(tmp_path):
    stages = stages_of(phases(tmp_path), TrainingConfig(steps=10, batch_size="4:16"))
    assert [*map(shape_of, stages)] == [(0, 4, None, 0), (3, 8, None, 12), (6, 16, None, 36)]


def test_all_values_occur_if_there_are_steps_for_them(tmp_path):
    """60 steps have three whole groups of bins; two steps have the two largest of seven sizes."""
    bins = stages_of(phases(tmp_path), TrainingConfig(steps=60, masked_lm_prob="0.3:0.15", padding="bins"))
    assert [(stage.first, stage.masked_lm_prob) for stage in bins] == [(0, 0.3), (32, 0.225), (48, 0.15)]
    few = stages_of(phases(tmp_path), TrainingConfig(steps=2, batch_size="1:64"))
    assert [(stage.first, stage.batch_size) for stage in few] == [(0, 32), (1, 64)]


def test_masks_of_bins_do_not_change_before_the_decay(tmp_path):
    training = TrainingConfig(steps=100, masked_lm_prob="0.3:0.15", padding="bins", schedule="trapezoidal")
    stages = stages_of(phases(tmp_path), replace(training, decay_steps=50))
    assert [stage.first for stage in stages if stage.masked_lm_prob < 0.3] == [80, 96]
    assert all(stage.masked_lm_prob == 0.3 for stage in stages if stage.first < 50)


@pytest.mark.parametrize(("schedule", "begin"), [("linear", 0), ("trapezoidal", 256)])
def test_masks_change_over_the_run_or_over_its_decay(tmp_path, schedule, begin):
    steps = 320
    stages = stages_of(phases(tmp_path), TrainingConfig(steps=steps, masked_lm_prob="0.3:0.15", schedule=schedule))
    shares = [stage.masked_lm_prob for stage in stages]
    values = np.linspace(0.3, 0.15, MASK_STAGES)
    assert shares == pytest.approx([0.3, *values] if begin else values)
    width = (steps - begin) // MASK_STAGES
    assert [stage.first for stage in stages if stage.first >= begin] == [*range(begin, steps, width)]
    assert [stage.rows_before for stage in stages] == [32 * stage.first for stage in stages]


def test_rows_are_counted_anew_for_the_longer_examples(tmp_path):
    stages = stages_of(phases(tmp_path, 2), TrainingConfig(steps=8, batch_size="2:4", long_share=0.25))
    assert [(stage.data.name, *shape_of(stage)) for stage in stages] == [
        ("0", 0, 2, None, 0), ("0", 4, 4, None, 8), ("1", 6, 4, None, 0),
    ]  # fmt: skip


@settings(deadline=None, max_examples=100)
@given(
    st.integers(1, 400), st.sampled_from(["1:1", "2:16", "3:40"]), st.sampled_from(["0.3:0.1", "0.1:0.3"]),
    st.sampled_from(["full", "bins"]), st.sampled_from(["linear", "trapezoidal"]), st.integers(1, 2),
    st.sampled_from([-1, 0, 7, 1000]),
)  # fmt: skip
def test_stages_are_in_order_and_read_each_row_once(
    tmp_path_factory, steps, sizes, shares, padding, schedule, lengths, decay
):
    training = TrainingConfig(
        steps=steps, batch_size=sizes, masked_lm_prob=shares, padding=padding, schedule=schedule, decay_steps=decay
    )
    stages = stages_of(phases(tmp_path_factory.getbasetemp(), lengths), training)
    assert stages[0].first == 0
    for one, other in pairwise(stages):
        assert one.first < other.first < steps
        if one.data == other.data:
            assert other.rows_before == one.rows_before + (other.first - one.first) * one.batch_size
            assert padding == "full" or (other.first - one.first) % GROUP == 0
    first, last = map(float, shares.split(":"))
    assert all(min(first, last) <= stage.masked_lm_prob <= max(first, last) for stage in stages)


@pytest.mark.integration
def test_growing_batches_have_the_rows_of_constant_ones_in_their_order(data):
    """Without masks, the tokens of rows tell whether each one is read once."""
    settings = {"objective": "causal_lm", "nsp_weight": 0.0}
    grown = course_of(data, batch_size="4:16", steps=9, **settings)
    sizes, rows = [], []
    for step in range(9):
        tokens = next(iter(grown.batches(step)))[0][TOKEN_IDS]
        sizes.append(len(tokens))
        rows.append(np.asarray(tokens))
    assert sizes == [4] * 3 + [8] * 3 + [16] * 3
    constant = course_of(data, batch_size=4, **settings)
    expected = [np.asarray(inputs[TOKEN_IDS]) for inputs, *_ in islice(iter(constant.batches(0)), sum(sizes) // 4)]
    np.testing.assert_array_equal(np.concatenate(rows), np.concatenate(expected))


@pytest.mark.integration
def test_amounts_of_all_stages_are_announced(data):
    lines = course_of(data, batch_size="4:16", steps=9).announce(lambda: False)
    assert [line.partition(":")[0] for line in lines] == ["data", "chance"]
    assert "101 examples of 48 tokens" in lines[0]
    assert "the run takes 84, " in lines[0]


@pytest.mark.integration
@pytest.mark.parametrize("padding", ["full", "bins"])
def test_examples_have_the_predictions_of_their_stage(data, padding):
    steps = 2 * GROUP * MASK_STAGES
    course = course_of(data, batch_size=4, steps=steps, masked_lm_prob="0.3:0.1", padding=padding)
    shapes = {}
    for step in (0, steps // 2, steps - 1):
        inputs, _, weights = next(iter(course.batches(step)))
        share = next(stage for stage in reversed(course.stages) if stage.first <= step).masked_lm_prob
        lengths = np.asarray(inputs[PADDING_MASK]).sum(axis=1)
        counts = prediction_counts(replace(DATA, masked_lm_prob=share))[lengths]
        np.testing.assert_array_equal(np.asarray(weights[MLM_LOGITS]).sum(axis=1), counts)
        shapes.setdefault(inputs[TOKEN_IDS].shape[1], set()).add(inputs[MASK_POSITIONS].shape[1])
    # One shape for each length, whatever the share, so that each is compiled once.
    assert all(len(widths) == 1 for widths in shapes.values())


@pytest.mark.integration
@pytest.mark.parametrize("padding", ["full", "bins"])
def test_a_later_start_has_the_batches_of_the_run(data, monkeypatch, padding):
    settings = {"batch_size": "2:4", "masked_lm_prob": "0.3:0.1", "steps": 4 * GROUP, "padding": padding}
    course = course_of(data, **settings)
    starts = [stage.first for stage in course.stages]
    for start, other in ((starts[1], starts[1] + 3), (starts[-1], starts[-1] + 1)):
        batches = [*islice(iter(course.batches(start)), other - start + 1)]
        assert_same(batches[-1], next(iter(course.batches(other))))
    monkeypatch.setattr(course_module, "pretraining_data", pretraining_batches)
    for start in starts[::5]:
        with monkeypatch.context() as patch:
            mine = next(iter(course.batches(start)))
            patch.setattr(course_module, "pretraining_data", pretraining_data)
            assert_same(mine, next(iter(course.batches(start))))


def assert_same(one, other):
    for part, same in zip(one, other, strict=True):
        for name in part:
            np.testing.assert_array_equal(np.asarray(part[name]), np.asarray(same[name]), err_msg=name)


def test_shares_of_static_masks_are_refused(tmp_path):
    other = replace(DATA, masking="static", max_predictions_per_seq=0)
    write_directory(tmp_path, other, VOCABULARY, {"train": [9], "validation": [9]})
    message = f"{tmp_path.name}: .*`masked_lm_prob` must be .* static.*Run `bert-tf data --masking dynamic`"
    with pytest.raises(ConfigError, match=message):
        course_of(tmp_path, masked_lm_prob="0.2:0.1")


@pytest.mark.parametrize(("setting", "places"), [("0.4:0.2", 20), (0.1, 5)])
def test_examples_have_places_for_the_largest_share_of_the_run(data, setting, places):
    course = course_of(data, masked_lm_prob=setting, steps=8)
    for step in (0, 7):
        assert next(iter(course.batches(step)))[0][MASK_POSITIONS].shape[1] == places
    assert next(iter(course.held_out(0)))[0][MASK_POSITIONS].shape[1] == DATA.max_predictions_per_seq


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"steps": 24}, 12),
        ({"steps": 24, "batch_size": "16:32"}, 6),
        ({"batch_size": 16}, 0),
        ({"steps": 24, "masked_lm_prob": "0.3:0.15", "schedule": "trapezoidal"}, 10),
        ({"steps": 24, "masked_lm_prob": "0.3:0.15"}, 1),
    ],
)
def test_common_batches_of_two_runs(data, settings, expected):
    """With 12 and 24 steps; the decay of the trapezoidal schedule begins after 10 of 12."""
    shared = {name: value for name, value in settings.items() if name != "steps" and ":" in str(value)}
    course = course_of(data, **shared, **({"schedule": "trapezoidal"} if "schedule" in settings else {}))
    other = TrainingConfig(**({"steps": 12, "seed": 3} | settings))
    assert course.common_batches(other) == expected


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("batch_size", "64:16"), ("batch_size", "0:4"), ("batch_size", "4:8:16"), ("batch_size", "many"),
        ("masked_lm_prob", "0.15:nan"),
        ("masked_lm_prob", 0.0), ("masked_lm_prob", 1.5), ("masked_lm_prob", "0.3:"), ("masked_lm_prob", "-1:0.2"),
    ],
)  # fmt: skip
def test_invalid_pairs_are_refused(field, value):
    with pytest.raises(ConfigError, match=f"`training.{field}` must be .*Received: {value!r}"):
        TrainingConfig(**{field: value})

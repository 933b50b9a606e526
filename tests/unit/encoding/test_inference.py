"""Outputs are in the order of the rows, without padding, for any batching."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bert_tf.config import BertConfig
from bert_tf.data.schema import PADDING_MASK, SINGLE_OUTPUT, TOKEN_IDS
from bert_tf.encoding import inference
from bert_tf.encoding.inference import batches_by_length, most_tokens, outputs_of
from bert_tf.encoding.rows import EncodedRows
from bert_tf.entry import progress
from bert_tf.entry.progress import Progress

CONFIG = BertConfig(vocabulary_size=20, hidden_dim=8, num_layers=1, num_heads=2, intermediate_dim=8)
LENGTHS = [3, 200, 2, 17, 120, 60, 2, 33]


def rows(choices: int = 1) -> EncodedRows:
    splits = np.concatenate([[0], np.cumsum(LENGTHS)])
    tokens = np.random.default_rng(1).integers(1, 20, splits[-1]).astype(np.int32)
    return EncodedRows(tokens, splits, np.full(len(LENGTHS), 2, np.int32), 0, choices=choices)


def test_one_output_per_row() -> None:
    encoded = rows()
    sums = [encoded.token_ids[begin:end].sum() for begin, end in itertools.pairwise(encoded.row_splits)]
    seen: list[int] = []

    def model(inputs):
        total = (inputs[TOKEN_IDS] * inputs[PADDING_MASK]).sum(axis=1)
        return np.stack([total, -total], axis=1)

    found = outputs_of(model, encoded, CONFIG, by_token=False, done=seen.append)[SINGLE_OUTPUT]
    np.testing.assert_array_equal(found, np.stack([sums, np.negative(sums)], axis=1))
    assert found.dtype == np.float32 and sum(seen) == len(LENGTHS)


def test_outputs_per_token() -> None:
    encoded = rows()
    found = outputs_of(
        lambda inputs: {"once": inputs[TOKEN_IDS], "twice": inputs[TOKEN_IDS][..., None] * [1, 2]},
        encoded,
        CONFIG,
        True,
    )
    np.testing.assert_array_equal(found["once"], encoded.token_ids)
    np.testing.assert_array_equal(found["twice"], encoded.token_ids[:, None] * [1, 2])


def test_outputs_per_choice() -> None:
    encoded = rows(choices=2)
    found = outputs_of(lambda inputs: inputs[PADDING_MASK].sum(axis=2), encoded, CONFIG, by_token=False)
    np.testing.assert_array_equal(found[SINGLE_OUTPUT], np.reshape(LENGTHS, (4, 2)))


@pytest.mark.parametrize("choices", [1, 2])
@pytest.mark.parametrize("tokens", [1, 300, 2000])
def test_batches_contain_every_row_once_within_the_token_limit(choices: int, tokens: int) -> None:
    encoded = rows(choices)
    batches = list(batches_by_length(encoded, tokens))
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(encoded)))
    assert all(len(batch) == 1 or encoded.width(batch) * choices * len(batch) <= tokens for batch in batches)


def test_less_memory_makes_smaller_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_free(size: int, longest: int = 128) -> int:
        pages = {"SC_AVPHYS_PAGES": size // 4096, "SC_PAGE_SIZE": 4096}
        monkeypatch.setattr(inference.os, "sysconf", pages.__getitem__)
        return most_tokens(BertConfig(), longest)

    assert with_free(1 << 20) == 512 < with_free(200 << 20, 512) < with_free(200 << 20) < with_free(1 << 40) == 8192


def test_progress_reports_count_rate_and_remaining_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 1.0, 20.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    rows = Progress("rows", 500)
    rows.add(50)
    rows.add(50)
    assert capsys.readouterr().err == "100 rows of 500, 80 s left, 5 a second\n"

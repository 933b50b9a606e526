from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bert_tf.config import BertConfig, DataConfig, RunConfig, TrainingConfig
from bert_tf.pretraining.run import run_pretraining
from bert_tf.training.logging.run_log import read_history
from tests.support.data.samples import make_vocabulary, write_directory

VOCABULARY = make_vocabulary()
DATA = DataConfig(max_seq_length=96, max_predictions_per_seq=14, short_seq_prob=0.5)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("data")
    write_directory(directory, DATA, VOCABULARY, {"train": [60, 41], "validation": [9]})
    return directory


def run(data: Path, output: Path, **training):
    model = BertConfig(
        vocabulary_size=len(VOCABULARY), hidden_dim=16, num_layers=2, num_heads=2, intermediate_dim=24,
        max_sequence_length=96, dropout=0.0,
    )  # fmt: skip
    settings = {"steps": 6, "batch_size": 8, "learning_rate": 1e-2, "log_every": 2, "evaluate_every": 3} | training
    _, result = run_pretraining(data, RunConfig(model, TrainingConfig(**settings)), output)
    return result, read_history(output / "history.jsonl")


@pytest.fixture(scope="module")
def padded(data, tmp_path_factory):
    return run(data, tmp_path_factory.mktemp("padded"))


@pytest.mark.parametrize("parts, less_padding", [(1, 0.1), pytest.param(4, 0.03, marks=pytest.mark.slow)])
def test_packed_run_equals_the_padded_run_with_fewer_rows(data, padded, tmp_path, parts, less_padding):
    result, history = run(data, tmp_path, padding="pack", accumulate=parts)
    assert [(line["split"], line["step"]) for line in history] == [(x["split"], x["step"]) for x in padded[1]]
    for line, other in zip(history, padded[1], strict=True):
        for figure in ("loss", "mlm_loss", "nsp_loss", "mlm_accuracy", "nsp_accuracy"):
            assert line[figure] == pytest.approx(other[figure], rel=1e-5), (line["step"], figure)
    pairs = zip(result.model.trainable_weights, padded[0].model.trainable_weights, strict=True)
    for variable, other in pairs:
        if "key/bias" not in variable.path:  # the exact gradient is 0
            np.testing.assert_allclose(variable, other, atol=1e-4, err_msg=variable.path)
    shares = [np.mean([line["padding"] for line in lines if "padding" in line]) for lines in (history, padded[1])]
    assert shares[0] < shares[1] - less_padding


def test_length_batching_reduces_padding_with_the_same_evaluation(data, padded, tmp_path):
    _, history = run(data, tmp_path, padding="bins")
    shares = [np.mean([line["padding"] for line in lines if "padding" in line]) for lines in (history, padded[1])]
    assert shares[0] < shares[1] - 0.1
    metrics = [line for line in history if line["split"] == "validation"]
    assert [line["step"] for line in metrics] == [3, 6]

"""Parameters that the paper's tables vary, through the command line: examples, masks, attention, layers."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_tf import load_backbone
from bert_tf.cli import main
from bert_tf.data.input.tf import pretraining_dataset
from bert_tf.data.manifest import open_data
from bert_tf.data.schema import MASK_POSITIONS, MLM_LOGITS, NSP_LOGITS, PADDING_MASK, SEGMENT_IDS, TOKEN_IDS

WORDS = ["wave", "boat", "fish", "salt", "deepwater", "sailing", "wind", "tide", "shore", "gull", "treetop", "leaf"]
MODEL = {"hidden_dim": 32, "num_layers": 2, "num_heads": 2, "intermediate_dim": 64, "max_sequence_length": 32}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, its vocabulary and a model configuration."""
    folder, chooser = tmp_path_factory.mktemp("knobs"), random.Random(3)
    documents = [
        "\n".join(f"The {' '.join(chooser.choices(WORDS, k=6))}." for _ in range(chooser.randint(3, 8)))
        for _ in range(120)
    ]
    (folder / "corpus.txt").write_text("\n\n".join(documents) + "\n")
    (folder / "model.json").write_text(json.dumps(MODEL))
    # A vocabulary of few pieces, so that words have several.
    argv = ["vocab", "--input", folder / "corpus.txt", "--format", "text", "--vocabulary_size", 60]
    assert main([str(part) for part in [*argv, "--output", folder / "vocab.txt"]]) == 0
    return folder


def make(folder: Path, output: Path, *flags: str) -> Path:
    argv = ["data", "--input", folder / "corpus.txt", "--vocabulary", folder / "vocab.txt", "--output", output,
            "--max_sequence_length", 32, "--max_predictions_per_seq", 10, "--validation_fraction", 0.2,
            *flags]  # fmt: skip
    assert main([str(part) for part in argv]) == 0
    return output


def pretrain(folder: Path, data: Path, output: Path, capsys: pytest.CaptureFixture[str], *settings: str) -> Any:
    argv = ["pretrain", "--data", data, "--model", folder / "model.json", "--output", output, "--steps", 2]
    capsys.readouterr()
    assert main([str(part) for part in [*argv, "--set", "training.batch_size=8", *settings]]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def masked(data: Path) -> tuple[dict, dict, dict]:
    """Inputs, targets and weights of a few batches, all rows together."""
    dataset = pretraining_dataset(data, "train", batch_size=64, seed=1).take(8)
    batches = [tuple({k: v.numpy() for k, v in part.items()} for part in batch) for batch in dataset]
    return tuple({key: np.concatenate([b[i][key] for b in batches]) for key in batches[0][i]} for i in range(3))


def shares(data: Path) -> tuple[float, float, float]:
    """Shares of the predicted positions that hold [MASK], the original piece, and any other piece."""
    inputs, targets, weights = masked(data)
    chosen = weights[MLM_LOGITS] > 0
    tokens = np.take_along_axis(inputs[TOKEN_IDS], inputs[MASK_POSITIONS], 1)[chosen]
    hidden = tokens == open_data(data)[1].mask_id
    kept = tokens == targets[MLM_LOGITS][chosen]
    return hidden.mean(), kept.mean(), (~hidden & ~kept).mean()


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--mask_share=1.0", "--random_share=0.0"), (1.0, 0.0, 0.0)),
        pytest.param(("--mask_share=0.0", "--random_share=0.0"), (0.0, 1.0, 0.0), marks=pytest.mark.slow),
        pytest.param(("--mask_share=0.8", "--random_share=0.2"), (0.8, 0.0, 0.2), marks=pytest.mark.slow),
        pytest.param(
            ("--masking=static", "--mask_share=0.0", "--random_share=1.0"), (0.0, 0.0, 1.0), marks=pytest.mark.slow
        ),
    ],
)
def test_mask_probabilities(folder, tmp_path, flags, expected):
    """Table 8. A random piece may equal the original one: one in sixty."""
    assert shares(make(folder, tmp_path / "data", *flags)) == pytest.approx(expected, abs=0.04)


@pytest.mark.slow
def test_left_to_right_model_with_span_masks_without_next_sentences(folder, tmp_path, capsys):
    """Table 5 in one run, and the layers of its model by name."""
    data = make(folder, tmp_path / "data", "--no_nsp", "--mask_unit=span", "--max_ngram=2")
    inputs, _, weights = masked(data)
    assert not weights[NSP_LOGITS].any()
    assert not inputs[SEGMENT_IDS].any()
    settings = ("model.attention=left_to_right", "training.objective=causal_lm")
    summary = pretrain(folder, data, tmp_path / "run", capsys, *settings)
    assert "causal_lm_perplexity" in summary
    assert "nsp_loss" not in summary
    backbone = load_backbone(tmp_path / "run").model
    assert backbone.config.attention == "left_to_right"
    few = {key: inputs[key][:2] for key in (TOKEN_IDS, SEGMENT_IDS, PADDING_MASK)}
    names = ("embeddings", "layer_1", "layer_2")
    features = backbone.features(names)(few)
    assert {name: tuple(values.shape) for name, values in features.items()} == dict.fromkeys(names, (2, 32, 32))


@pytest.mark.slow
def test_whole_words(folder, tmp_path, capsys):
    """All pieces of a word are predicted, or none."""
    data = make(folder, tmp_path / "data", "--mask_unit=whole_word", "--masked_lm_prob=0.2")
    inputs, targets, weights = masked(data)
    vocabulary = open_data(data)[1]
    whole = inputs[TOKEN_IDS].copy()
    predicted = np.zeros(whole.shape, bool)
    for row, (positions, pieces, chosen) in enumerate(
        zip(inputs[MASK_POSITIONS], targets[MLM_LOGITS], weights[MLM_LOGITS] > 0, strict=True)
    ):
        whole[row, positions[chosen]] = pieces[chosen]
        predicted[row, positions[chosen]] = True
    follows = np.isin(whole[:, 1:], [i for i, piece in enumerate(vocabulary.tokens) if piece.startswith("##")])
    # A segment that was truncated at its start begins within a word.
    follows &= ~np.isin(whole[:, :-1], vocabulary.special_ids)
    assert follows.any()
    assert (predicted[:, 1:] == predicted[:, :-1])[follows].all()
    assert pretrain(folder, data, tmp_path / "run", capsys)["step"] == 2


def test_spans_longer_than_an_example(folder, tmp_path, capsys):
    argv = ["data", "--input", folder / "corpus.txt", "--vocabulary", folder / "vocab.txt", "--output",
            tmp_path / "data", "--max_seq_length", 16, "--max_predictions_per_seq", 5, "--max_ngram", 17]  # fmt: skip
    assert main([str(part) for part in argv]) != 0
    assert "`max_ngram` must not exceed `max_seq_length`. Received: 17 and 16" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()

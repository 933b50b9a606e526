"""`bert-tf inspect` on data directories and checkpoints; other things it describes are in `test_commands_path`."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from bert_tf.cli import main
from bert_tf.config import BertConfig, DataConfig
from bert_tf.conversion import Options
from bert_tf.conversion.formats import registry
from bert_tf.conversion.formats.keras_hub import checkpoint as keras_hub
from bert_tf.data.examples.build import TokenizedDocument, build_pairs
from bert_tf.data.manifest import Manifest, Source, write_manifest
from bert_tf.data.schema import length_folder, shard_name
from bert_tf.data.tfrecord.shards import encode_dynamic, write_shard
from bert_tf.models import BertBackbone, BertTokenClassifier, save_preset
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary, save_vocabulary
from tests.support.paths import TESTDATA

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *(f"w{number}" for number in range(60))))
CONFIG = DataConfig(max_seq_length=32, max_predictions_per_seq=5)


def write_data(directory: Path, length: int = 32) -> Path:
    """Writes a data directory of random words with one training shard and one held-out one."""
    directory.mkdir(parents=True, exist_ok=True)
    config = dataclasses.replace(CONFIG, max_seq_length=length)
    rng = np.random.default_rng(length)
    shards = {}
    histogram = np.zeros(length + 1, np.int64)
    for split in ("train", "validation"):
        documents = [
            TokenizedDocument(int(rng.integers(2**63)), rng.integers(5, 65, 40, np.int32), np.full(8, 5, np.int32))
            for _ in range(30)
        ]
        pairs = build_pairs(documents, config, VOCABULARY)
        histogram += np.bincount(np.diff(pairs.row_splits), minlength=length + 1)
        shards[split] = (write_shard(directory / shard_name(split, 0, 1), encode_dynamic(pairs)),)
    manifest = Manifest(
        config=config,
        vocabulary_sha256=VOCABULARY.fingerprint,
        vocabulary_size=len(VOCABULARY),
        shards=shards,
        counts={"documents": 60, "documents_read": 63, "examples": int(histogram.sum()), "tokens": 2400},
        rejected={"empty": 3},
        sources=(Source("corpus/*.txt", "text", "en", 1.0, 2, 9_000, 63, 60, 2400, {"empty": 3}),),
        histograms={"example_lengths": histogram.tolist(), "document_lengths": [0, 0, 0, 0, 0, 60]},
        fill=float((histogram * np.arange(length + 1)).sum() / histogram.sum() / length),
    )
    save_vocabulary(VOCABULARY, directory / "vocab.txt")
    write_manifest(manifest, directory)
    return directory


def inspect(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, dict]:
    assert main(["inspect", str(path)]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    return "\n".join(lines), json.loads(last)


def test_data_directory_is_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, summary = inspect(write_data(tmp_path / "data"), capsys)
    assert text.startswith("data: pre-training data, every checksum matches\n\n")
    total = sum(summary["examples"].values())
    assert f"\n{total:,} examples of up to 32 tokens\n" in text
    assert "\n\nSources\n" in text and "\n\n20 examples\n" in text and "[MASK→w" in text
    assert summary["kind"] == "pre-training data, every checksum matches"
    assert summary["shards"] == {"train": 1, "validation": 1}
    assert summary["sources"][0]["input"] == "corpus/*.txt"
    assert summary["histograms"]["document_lengths"] == {"p50": 63, "p95": 63, "max": 63}
    assert summary["histograms"]["example_lengths"]["max"] <= 32
    # Scripts depend on these keys.
    assert {
        "output", "kind", "examples", "shards", "bytes", "counts", "rejected", "labels", "unk_rate", "fill",
        "vocabulary_size", "config", "versions", "sources", "histograms", "seconds",
    } <= summary.keys()  # fmt: skip


def test_checksums_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_data(tmp_path / "data") / shard_name("validation", 0, 1)
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    assert main(["inspect", str(tmp_path / "data")]) == 1
    error = capsys.readouterr().err
    assert str(path) in error and "SHA-256 must be" in error


def test_all_lengths_of_a_run_are_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for length in (128, 32, 512):
        write_data(tmp_path / length_folder(length), length)
    (tmp_path / "run.json").write_text("{}")
    text, summary = inspect(tmp_path, capsys)
    assert [line.split(":")[0] for line in text.splitlines() if line.endswith("checksum matches")] == [
        "length-32", "length-128", "length-512"
    ]  # fmt: skip
    assert summary["length-512"]["config"]["max_seq_length"] == 512
    assert {"length-32", "length-128"} <= summary.keys()


def test_an_unfinished_length_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_data(tmp_path / length_folder(32))
    (tmp_path / length_folder(128)).mkdir()
    assert main(["inspect", str(tmp_path)]) == 1
    assert "length-128/manifest.json is missing" in capsys.readouterr().err


@pytest.fixture
def two_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits recognition to two formats, because the other formats have their own tests."""
    monkeypatch.setattr(registry, "FORMS", ("preset", "keras_hub"))


def test_a_checkpoint_of_another_program(two_formats: None, capsys: pytest.CaptureFixture[str]) -> None:
    folder = TESTDATA / "keras_hub_masked_lm"
    text, summary = inspect(folder, capsys)
    assert summary["kind"] == "checkpoint of the form keras_hub"
    assert summary["bytes"] == sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    width, inner, pieces = 8, 16, 35
    layer = 4 * (width * width + width) + 2 * 2 * width + 2 * width * inner + inner + width
    assert list(summary["parameters_by_block"]) == ["embeddings", "layer_1", "pooler", "mlm_logits"]
    assert summary["parameters_by_block"] == {
        "embeddings": (pieces + 2 + 16) * width + 2 * width,
        "layer_1": layer,
        "pooler": width * width + width,
        "mlm_logits": width * width + 3 * width + pieces,
    }
    assert summary["parameters"] == sum(summary["parameters_by_block"].values())
    assert (summary["vocabulary_size"], summary["lowercase"], summary["heads"]) == (35, True, ["masked_lm"])
    assert (summary["dtype"], summary["step"], summary["labels"]) == ("float32", None, None)
    assert summary["model"]["mlm_activation"] == "gelu" and summary["model"]["num_layers"] == 1
    assert summary["left_out"] == ["optimizer/vars/0", "optimizer/vars/1"]
    assert "left_out: optimizer/vars/0, optimizer/vars/1" in text and "  layer_1: 600" in text


def test_a_preset_with_labels(two_formats: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = BertConfig(
        vocabulary_size=len(VOCABULARY), hidden_dim=8, num_layers=1, num_heads=2, intermediate_dim=16,
        max_sequence_length=8, pooler=False,
    )  # fmt: skip
    model = BertTokenClassifier(BertBackbone(config), 10)
    labels = [f"label{number}" for number in range(10)]
    save_preset(model, tmp_path / "preset", VOCABULARY, False, {"labels": labels}, {"step": 5, "loss": 0.5})
    text, summary = inspect(tmp_path, capsys)
    assert summary["kind"] == "preset of a BertTokenClassifier"
    assert summary["parameters"] == model.count_params()
    assert (summary["heads"], summary["labels"], summary["step"]) == (["token_classification"], labels, 5)
    assert (summary["task"], summary["info"]) == ({"labels": labels}, {"step": 5, "loss": 0.5})
    assert "labels: label0, label1" in text and "label7 and 2 more" in text


def test_padding_is_excluded_from_the_vocabulary_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    padded = Vocabulary((*VOCABULARY.tokens, f"[padding{len(VOCABULARY)}]"))
    config = BertConfig(vocabulary_size=len(padded), hidden_dim=4, num_layers=1, num_heads=1, intermediate_dim=4)
    save_preset(BertBackbone(config), tmp_path / "preset", padded, True)
    _, summary = inspect(tmp_path / "preset", capsys)
    assert (summary["vocabulary_size"], summary["model"]["vocabulary_size"]) == (len(VOCABULARY), len(padded))


def test_a_damaged_checkpoint_is_an_error(
    two_formats: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(TESTDATA / "keras_hub_classifier", tmp_path / "copy"))
    (folder / "task.weights.h5").unlink()
    assert main(["inspect", str(folder)]) == 1
    assert "task.weights.h5, are missing" in capsys.readouterr().err


def test_path_may_be_a_prefix_of_file_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, size in (("model.ckpt.index", 10), ("model.ckpt.data-00000-of-00001", 20), ("model.ckpt2.index", 40)):
        (tmp_path / name).write_bytes(bytes(size))
    source = keras_hub.read(TESTDATA / "keras_hub_backbone", Options())
    checkpoint = dataclasses.replace(source, form="google_tf1", path=tmp_path / "model.ckpt")
    monkeypatch.setattr(registry, "recognize", lambda path: "google_tf1")
    monkeypatch.setattr("bert_tf.conversion.read_checkpoint", lambda *arguments: checkpoint)
    _, summary = inspect(tmp_path / "model.ckpt", capsys)
    assert (summary["kind"], summary["bytes"]) == ("checkpoint of the form google_tf1", 30)
    assert main(["inspect", str(tmp_path / "model.ck")]) == 1
    assert "does not exist" in capsys.readouterr().err

from __future__ import annotations

import dataclasses
import hashlib
import json
import struct

import pytest

from bert_tf.config import ConfigError, DataConfig
from bert_tf.data.manifest import (
    check_vocabulary,
    library_versions,
    open_data,
    read_manifest,
    verify_shard,
    verify_shards,
    write_manifest,
)
from bert_tf.data.tfrecord import shards
from bert_tf.data.tfrecord.shards import ShardInfo
from bert_tf.text.vocabulary import save_vocabulary
from tests.support.data.samples import make_vocabulary, write_directory

VOCABULARY = make_vocabulary()
CONFIG = DataConfig(max_seq_length=32, max_predictions_per_seq=5, seed=2**62)
SIZES = {"train": [5, 7], "validation": [3]}


@pytest.fixture
def data(tmp_path):
    write_directory(tmp_path, CONFIG, VOCABULARY, SIZES)
    return tmp_path


def edit(directory, **changes):
    path = directory / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_manifest_round_trip(data):
    manifest = read_manifest(data)
    full = dataclasses.replace(
        manifest,
        rejected={"too_long": 3},
        label_histogram={"next": 7, "random": 8},
        unk_rate=0.25,
        fill=0.9,
        versions=library_versions(),
        unicode_version="16.0.0",
    )
    write_manifest(full, data)
    assert read_manifest(data) == full
    assert full.config == CONFIG
    assert [full.examples(split) for split in ("train", "validation")] == [12, 3]
    assert full.versions["numpy"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema_version": 99}, "`schema_version` must be 2. Received: 99"),
        ({"colour": "red"}, "unknown key `colour`"),
        ({"vocabulary_size": "many"}, "`vocabulary_size` must be int. Received: 'many'"),
        ({"fill": None}, "`fill` must be float. Received: None"),
        ({"counts": {"examples": "x"}}, "`counts`: `examples` must be int. Received: 'x'"),
        ({"versions": []}, "`versions` must be dict. Received: []"),
        ({"config": {"max_seq_len": 3}}, "`config`: unknown key `max_seq_len`"),
        ({"config": {"max_seq_length": 3}}, "`max_seq_length` must be at least 8"),
        ({"sources": {}}, "`sources` must be list. Received: {}"),
        ({"sources": [{"input": "a", "colour": 1}]}, "`sources`: 0: unknown key `colour`"),
        (
            {"histograms": {"example_lengths": [1, "2"]}},
            "`histograms`: `example_lengths`: 1 must be int. Received: '2'",
        ),
        ({"shards": {"train": []}}, "`shards` must have the splits train, validation"),
        ({"shards": {"train": {}, "validation": []}}, "`shards`: `train` must be list. Received: {}"),
        ({"shards": {"train": [{"name": "a"}], "validation": []}}, "`shards`: `train`"),
        (
            {"shards": {"train": [{"name": "../a", "examples": 1, "bytes": 1, "sha256": ""}], "validation": []}},
            "`name` must be a file name. Received: '../a'",
        ),
    ],
)
def test_inconsistent_manifest_is_refused(data, changes, message):
    edit(data, **changes)
    with pytest.raises(ConfigError, match="manifest.json|max_seq_length") as error:
        read_manifest(data)
    assert message in str(error.value)


def test_missing_fields_and_files_are_named(data):
    path = data / "manifest.json"
    fields = json.loads(path.read_text())
    del fields["fill"]
    path.write_text(json.dumps(fields))
    with pytest.raises(ConfigError, match="missing field: fill"):
        read_manifest(data)
    path.write_text("{")
    with pytest.raises(ConfigError, match="not a readable JSON file"):
        read_manifest(data)
    path.unlink()
    with pytest.raises(ConfigError, match=r"manifest.json is missing: .* `bert-tf data --output .*` again"):
        read_manifest(data)


def test_the_folders_of_several_lengths_are_named(tmp_path):
    for length in (128, 64):
        (tmp_path / f"length-{length}").mkdir()
    with pytest.raises(ConfigError, match="several lengths.* length-128, length-64"):
        read_manifest(tmp_path)


def test_another_vocabulary_is_refused(data):
    manifest, vocabulary = open_data(data, vocabulary=VOCABULARY)
    assert vocabulary == VOCABULARY
    other = make_vocabulary(words=401)
    with pytest.raises(ValueError, match=r"made with a vocabulary of 505 pieces .* Received: 506 pieces"):
        check_vocabulary(manifest, other)
    with pytest.raises(ValueError, match=f"{data}: the data was made with"):
        open_data(data, vocabulary=other)
    save_vocabulary(make_vocabulary(words=399, continuations=101), data / "vocab.txt")
    with pytest.raises(ValueError, match=f"{data}: the data was made with"):
        open_data(data)


def test_shards_are_checked(data):
    manifest = read_manifest(data)
    verify_shards(data, manifest, checksums=True)
    path = data / manifest.shards["train"][1].name
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    verify_shards(data, manifest)
    with pytest.raises(ValueError, match=f"{path}: record 6 at byte .* SHA-256 must be"):
        verify_shards(data, manifest, checksums=True)
    path.write_bytes(content + b"?")
    with pytest.raises(ValueError, match=rf"{path}: must have {len(content)} bytes .* Received: {len(content) + 1}"):
        open_data(data)
    path.unlink()
    with pytest.raises(ValueError, match=f"{path} is missing"):
        open_data(data)


def test_a_record_beyond_the_end_of_its_shard_is_named(tmp_path):
    # The checksums fit, as in data that somebody else made; TensorFlow's reader would end the process.
    header = struct.pack("<Q", 2**50)
    path = tmp_path / "train-00000-of-00001.tfrecord"
    path.write_bytes(header + struct.pack("<I", shards._masked_crc(header)) + b"x")
    content = path.read_bytes()
    info = ShardInfo(path.name, 1, len(content), hashlib.sha256(content).hexdigest())
    with pytest.raises(ValueError, match="record 0 at byte 0: the file ends within the record"):
        verify_shard(path, info, checksum=True)

"""Pre-training records as serialized `tf.train.Example`s in TFRecord shards."""

from __future__ import annotations

import functools
import hashlib
import itertools
import mmap
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from bert_tf.config.data import DataConfig
from bert_tf.config.files import staged_file
from bert_tf.data.examples.build import Pairs
from bert_tf.data.masking.tokens import Masked
from bert_tf.data.tfrecord.example_codec import RecordColumn, encode_examples

# Records assembled at once, so that their arrays take only a few megabytes.
_CHUNK = 2048
# TFRecord: length (uint64), its CRC, the data, its CRC. The CRC-32C is rotated by 15 bits and a constant is added, so
# that checksums stay sound for nested records (tensorflow/core/lib/hash/crc32c.h).
_MASK_DELTA = 0xA282EAD8
_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")
_LENGTH = struct.Struct("<Q")
# Maximum bytes of a record. A damaged length would reserve up to 2^64 bytes; TensorFlow's reader ends the process.
_MAX_RECORD = 2**28


@dataclass(frozen=True)
class ShardInfo:
    """Manifest entry of a shard."""

    name: str  # file name
    examples: int  # number of records
    bytes: int  # size of the file
    sha256: str  # hexadecimal


def encode_dynamic(pairs: Pairs) -> list[bytes]:
    """Serializes pairs without masks (`schema.DYNAMIC_FEATURES`), one record per pair.

    Records are byte-identical to deterministically serialized `tf.train.Example`s.
    """
    records: list[bytes] = []
    for begin in range(0, len(pairs), _CHUNK):
        rows = slice(begin, min(begin + _CHUNK, len(pairs)))
        splits = pairs.row_splits[begin : rows.stop + 1]
        columns = {
            "input_ids": RecordColumn(pairs.token_ids[splits[0] : splits[-1]], np.diff(splits)),
            "segment_lengths": _fixed(pairs.segment_lengths[rows]),
            "next_sentence_labels": _fixed(pairs.next_sentence_labels[rows, None]),
        }
        records += encode_examples(columns)
    return records


def encode_static(pairs: Pairs, masked: Masked, config: DataConfig) -> list[bytes]:
    """Serializes pairs with their masks from `mask_pairs` as the features of the original (`schema.STATIC_FEATURES`).

    Records are byte-identical to deterministically serialized `tf.train.Example`s.
    """
    records: list[bytes] = []
    position = np.arange(config.max_seq_length)
    lengths = np.diff(pairs.row_splits)
    for begin in range(0, len(pairs), _CHUNK):
        rows = slice(begin, begin + _CHUNK)
        is_token = position < lengths[rows, None]
        columns = {
            "input_ids": _fixed(masked.token_ids[rows]),
            "input_mask": _fixed(is_token.view(np.uint8)),
            "segment_ids": _fixed((is_token & (position >= pairs.segment_lengths[rows, :1])).view(np.uint8)),
            "masked_lm_positions": _fixed(masked.mask_positions[rows]),
            "masked_lm_ids": _fixed(masked.mask_ids[rows]),
            "masked_lm_weights": _fixed(masked.mask_weights[rows]),
            "next_sentence_labels": _fixed(pairs.next_sentence_labels[rows, None]),
        }
        records += encode_examples(columns)
    return records


def write_shard(path: str | Path, records: Iterable[bytes]) -> ShardInfo:
    """Writes a TFRecord file atomically into an existing directory; records are consumed while writing."""
    path = Path(path)
    digest, size, examples = hashlib.sha256(), 0, 0
    remaining = iter(records)
    with staged_file(path) as file:
        while chunk := list(itertools.islice(remaining, _CHUNK)):
            data = b"".join(itertools.chain.from_iterable(map(_framed, chunk)))
            file.write(data)
            digest.update(data)
            size += len(data)
            examples += len(chunk)
    return ShardInfo(path.name, examples, size, digest.hexdigest())


def read_shard(path: str | Path) -> Iterator[bytes]:
    """Reads a TFRecord file and checks both checksums of every record.

    Raises ValueError if a record is truncated or damaged; names the file, the record and its offset in bytes, both
    counted from 0.
    """
    with Path(path).open("rb") as file:
        yield from read_records(file, str(path))


def read_records(file: BinaryIO, name: str) -> Iterator[bytes]:
    """Reads an open TFRecord file like `read_shard`; `name` is the file name in errors."""
    number = offset = 0
    while header := file.read(_HEADER.size):
        record = _read_record(file, header, f"{name}: record {number} at byte {offset}")
        yield record
        number += 1
        offset += _HEADER.size + len(record) + _FOOTER.size


def find_damage(path: str | Path) -> str | None:
    """Returns the error message of the first damaged record in a file, None if all records are intact."""
    try:
        for _ in read_shard(path):
            pass
    except ValueError as error:
        return str(error)
    return None


def find_long_record(path: str | Path) -> str | None:
    """Returns the error message of the first record that is longer than its file, None if all records fit.

    It reads the lengths only, at some million records a second. A file that somebody made with valid checksums can have
    such a record, at which TensorFlow's reader ends the process.
    """
    size, place, number = Path(path).stat().st_size, 0, 0
    if not size:
        return None
    with Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        while place + _HEADER.size <= size:
            end = place + _HEADER.size + _LENGTH.unpack_from(content, place)[0] + _FOOTER.size
            if end > size:
                return f"{path}: record {number} at byte {place}: the file ends within the record"
            place, number = end, number + 1
    return None


def _read_record(file: BinaryIO, header: bytes, where: str) -> bytes:
    if len(header) < _HEADER.size:
        raise ValueError(f"{where}: the file ends within the header. Received: {len(header)} bytes")
    length, crc = _HEADER.unpack(header)
    if crc != _masked_crc(header[:8]):
        raise ValueError(f"{where}: the checksum of its length does not match. Received: {crc:#010x}")
    if length > _MAX_RECORD:
        raise ValueError(f"{where}: a record must have at most {_MAX_RECORD} bytes. Received: {length}")
    body = file.read(length + _FOOTER.size)
    if len(body) < length + _FOOTER.size:
        raise ValueError(f"{where}: the file ends within the record. Received: {len(body)} of {length + 4} bytes")
    data, (crc,) = body[:length], _FOOTER.unpack_from(body, length)
    if crc != _masked_crc(data):
        raise ValueError(f"{where}: the checksum of its data does not match. Received: {crc:#010x}")
    return data


def _framed(record: bytes) -> tuple[bytes, bytes, bytes]:
    return _frame_header(len(record)), record, _FOOTER.pack(_masked_crc(record))


@functools.lru_cache(maxsize=1 << 14)
def _frame_header(length: int) -> bytes:
    packed = struct.pack("<Q", length)
    return packed + _FOOTER.pack(_masked_crc(packed))


def _masked_crc(data: bytes) -> int:
    # Imported late: training steps run without this package.
    import google_crc32c

    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def _fixed(rows: np.ndarray) -> RecordColumn:
    return RecordColumn(rows.reshape(-1), np.full(rows.shape[0], rows.shape[1], np.int64))

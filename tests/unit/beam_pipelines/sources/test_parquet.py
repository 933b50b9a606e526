"""Parquet: text columns of all text types, split by row groups; other columns are refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_pipelines.errors import InputError
from beam_pipelines.sources import parquet
from beam_pipelines.sources.documents import EMPTY, OVER_LONG, UNDECODABLE, Part, ReadSettings
from beam_pipelines.sources.parquet import Parquet
from tests.support.beam_pipelines.source_samples import contents, peak_bytes, read, split, texts


def written(folder: Path, column: pa.Array, name: str = "text", **options: Any) -> Path:
    path = folder / "a.parquet"
    pq.write_table(pa.table({"id": pa.array(range(len(column))), name: column}), path, **options)
    return path


STRINGS = ["One.\n\n Two é.", "", None, "\n", "Three."]
LISTS = [["One.", " \nTwo é."], [], None, [None, "", "\n"], ["Three."]]
WANTED = [("One.", "Two é."), (), (), (), ("Three.",)]


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(),
     pa.dictionary(pa.int32(), pa.string()), pa.list_(pa.string()), pa.large_list(pa.large_string()),
     pa.list_(pa.dictionary(pa.int8(), pa.string()))],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("group", [2, 100])
def test_all_types_of_text(tmp_path: Path, kind: pa.DataType, group: int) -> None:
    column = pa.array(LISTS if "list" in str(kind) else STRINGS).cast(kind)
    found = read(Parquet, written(tmp_path, column, row_group_size=group))
    assert contents(found) == [(paragraphs, "" if paragraphs else EMPTY) for paragraphs in WANTED]
    assert [document.place for document in found] == [f"row {number}" for number in range(5)]


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_all_codecs(tmp_path: Path, compression: str, version: str) -> None:
    path = written(tmp_path, pa.array(STRINGS), compression=compression, data_page_version=version)
    assert texts(read(Parquet, path)) == WANTED


def test_columns_by_name_and_path(tmp_path: Path) -> None:
    nested = pa.array([{"text": "One.", "n": 1}, {"text": None, "n": 2}, None, {"text": "Two.\nThree.", "n": 3}])
    path = written(tmp_path, nested, "meta")
    assert texts(read(Parquet, path, text_field="meta.text")) == [("One.",), (), (), ("Two.", "Three.")]
    path = written(tmp_path, pa.array(["One."]), "meta.text")
    assert texts(read(Parquet, path, text_field="meta.text")) == [("One.",)]
    deep = pa.array([{"b": {"c": ["One.", "Two."]}}])
    assert texts(read(Parquet, written(tmp_path, deep, "a"), text_field="a.b.c")) == [("One.", "Two.")]


@pytest.mark.parametrize(
    ("column", "field", "message"),
    [
        (["x"], "content", r"has no column 'content'; the columns are id \(int64\), text \(string\)"),
        ([1.5], "text", "has double, not text, in its column 'text'"),
        ([[1]], "text", "has list<.*int64>, not text"),
        ([[["x"]]], "text", "has list<.*list<.*string>>, not text"),
        ([{"a": "x"}], "text", "has struct<a: string>, not text"),
        ([{"a": "x"}], "text.b", r"has no column 'text.b'; .* text \(struct<a: string>\)"),
        (["x"], "text.b", "has no column 'text.b'"),
        ([b"ab"], "id", "has int64, not text, in its column 'id'"),
    ],
)
def test_column_without_text_is_named(tmp_path: Path, column: list[Any], field: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"a\.parquet: {message}.* Received: --text_field {field}"):
        read(Parquet, written(tmp_path, pa.array(column)), text_field=field)


def test_invalid_rows_do_not_affect_others(tmp_path: Path) -> None:
    bad = pa.array([b"Good.", b"caf\xe9", b"x" * 101, "é".encode() * 50, b"Good."])
    as_strings = pa.Array.from_buffers(pa.string(), len(bad), bad.buffers())
    for column in (bad, as_strings):
        found = read(Parquet, written(tmp_path, column), max_document_bytes=100)
        assert [document.reason for document in found] == ["", UNDECODABLE, OVER_LONG, "", ""]
        assert found[1].paragraphs == ("caf\ufffd",)


def test_parts_are_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [f"Document {number} {'word ' * (number % 7)}" for number in range(100)]
    path = written(tmp_path, pa.array(words), row_group_size=9, compression="none", use_dictionary=False)
    assert split(Parquet, path) == [Part(str(path), 0, 12, path.stat().st_size)]
    monkeypatch.setattr(parquet, "PART_BYTES", 700)
    parts = split(Parquet, path)
    assert 3 < len(parts) < 12
    assert [part.begin for part in parts] == [0, *(part.end for part in parts[:-1])]
    assert parts[-1].end == 12
    assert sum(part.size for part in parts) == path.stat().st_size
    assert all(part.size > 0 for part in parts)
    found = [document for part in parts for document in Parquet(ReadSettings()).read(part)]
    assert found == read(Parquet, path)
    assert texts(found) == [(word.strip(),) for word in words]
    assert [document.place for document in found] == [f"row {number}" for number in range(100)]


def test_file_without_rows(tmp_path: Path) -> None:
    path = written(tmp_path, pa.array([], pa.string()))
    assert [read(Parquet, path), len(split(Parquet, path))] == [[], 1]


@pytest.mark.parametrize("kept", [0, 3, 100, 0.5, 0.99, 1.0])
def test_a_damaged_file_is_an_error(tmp_path: Path, kept: float) -> None:
    column = pa.array([f"Document {number}" for number in range(5000)])
    path = written(tmp_path, column, write_page_checksum=True, compression="none", use_dictionary=False)
    content = bytearray(path.read_bytes())
    if kept == 1.0:
        content[content.index(b"Document 2500")] ^= 0x55
    path.write_bytes(content[: int(kept if kept >= 3 else kept * len(content))])
    with pytest.raises(InputError, match=r"a\.parquet: missing, damaged or not a Parquet file"):
        read(Parquet, path)


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.parquet: missing"):
        read(Parquet, tmp_path / "gone.parquet")


def test_a_large_row_group_is_not_held_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    schema = pa.schema([("text", pa.string())])
    filler = "word " * 200
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        rows = pa.array([f"{number} {filler}" for number in range(100)])
        table = pa.table({"text": pa.concat_arrays([rows] * 500)})
        writer.write_table(table, row_group_size=len(table))
    assert pq.ParquetFile(path).num_row_groups == 1
    assert path.stat().st_size > 50_000_000
    assert peak_bytes(Parquet(ReadSettings()).read(Part(str(path)))) < 40_000_000

"""JSON lines: the text of a field for every split of the file, faulty lines, and wrong field names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.errors import InputError
from beam_pipelines.sources import jsonl, lines
from beam_pipelines.sources.documents import EMPTY, MALFORMED, OVER_LONG, UNDECODABLE, Part
from beam_pipelines.sources.jsonl import Jsonl
from tests.support.beam_pipelines.source_samples import PACKERS, contents, read, read_parts, split, texts


def written(folder: Path, records: list[Any], name: str = "a.jsonl") -> Path:
    """Writes `records`: bytes as they are, anything else as JSON."""
    rows = [record if isinstance(record, bytes) else json.dumps(record).encode() for record in records]
    path = folder / name
    path.write_bytes(b"".join(row + b"\n" for row in rows))
    return path


@pytest.mark.parametrize("suffix", PACKERS)
def test_text_field_is_read(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path, [{"id": 1, "text": "One.\n\n Two é. \r\nThree."}, b"", b" \r", {"text": "Four.\n"}])
    packed = tmp_path / f"b.jsonl{suffix}"
    packed.write_bytes(PACKERS[suffix](path.read_bytes()[:-1]))
    found = read(Jsonl, packed)
    assert texts(found) == [("One.", "Two é.", "Three."), ("Four.",)]
    assert [document.place for document in found] == ["line 1", "line 4"]


@pytest.mark.parametrize(
    ("field", "record"),
    [
        ("content", {"content": "Text.", "text": "other"}),
        ("meta.text", {"meta": {"text": "Text."}, "text": "other"}),
        ("a.b.c", {"a": {"b": {"c": "Text."}}}),
        ("meta.text", {"meta.text": "Text.", "meta": {"text": "other"}}),
    ],
)
def test_fields_by_name_and_path(tmp_path: Path, field: str, record: dict[str, Any]) -> None:
    assert texts(read(Jsonl, written(tmp_path, [record]), text_field=field)) == [("Text.",)]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b'{"text": "first", "text": "last"}', "last"),
        (b'{"score": NaN, "other": -Infinity, "text": "x"}', "x"),
        (b'\xef\xbb\xbf{"text": "x"}', "x"),
        (b' {"text": "\\u4e2d\\ud83d\\ude00"}\r', "中😀"),
        ('{"text": "a\u2028b\u0085c\\rd"}'.encode(), "a\u2028b\x85c\rd"),
        (b'{"text": "a\\u0000b"}', "a\0b"),
    ],
)
def test_json_values_are_parsed_as_in_python(tmp_path: Path, line: bytes, text: str) -> None:
    assert contents(read(Jsonl, written(tmp_path, [line]))) == [((text,), "")]


@pytest.mark.parametrize(
    ("line", "reason", "excerpt"),
    [
        (b'{"text": "One', MALFORMED, "no JSON: Unterminated string"),
        (b"Plain text.", MALFORMED, "no JSON: Expecting value"),
        (b'{"text": "x"} {"text": "y"}', MALFORMED, "no JSON: Extra data"),
        (b'{"text": "a\tb"}', MALFORMED, "no JSON: Invalid control character"),
        (b"[" * 100_000, MALFORMED, "no JSON: "),
        (b"1" * 5000, MALFORMED, "no JSON: "),
        (b'["text"]', MALFORMED, "no JSON object but an array: "),
        (b'"text"', MALFORMED, "no JSON object but a string: "),
        (b"null", MALFORMED, "no JSON object but null: "),
        (b'{"id": 1, "body": "x"}', MALFORMED, 'no field "text"; the fields are id, body: {"id"'),
        (b"{}", MALFORMED, 'no field "text"; the fields are none: {}'),
        (b'{"text": 12.5}', MALFORMED, 'the field "text" holds no string but a number: '),
        (b'{"text": true}', MALFORMED, 'the field "text" holds no string but a boolean: '),
        (b'{"text": ["x"]}', MALFORMED, 'the field "text" holds no string but an array: '),
        (b'{"text": {"x": "y"}}', MALFORMED, 'the field "text" holds no string but an object: '),
        (b'{"text": null}', EMPTY, ""),
        (b'{"text": ""}', EMPTY, ""),
        (b'{"text": " \\n\\t\\n"}', EMPTY, ""),
        (b'{"text": "caf\xe9"}', UNDECODABLE, '{"text": "caf\ufffd"}'),
        (b'{"text": "a\\ud83d"}', UNDECODABLE, "a?"),
        (b'{"a\\ud83d": 1}', MALFORMED, 'no field "text"; the fields are a?: {"a'),
        (b'{"text": "' + b"x" * 101 + b'"}', OVER_LONG, "x" * 101),
        (b'{"text": "' + b"\\u00e9" * 51 + b'"}', OVER_LONG, "é" * 51),
    ],
)
def test_invalid_line_does_not_affect_others(tmp_path: Path, line: bytes, reason: str, excerpt: str) -> None:
    good = {"text": "x" * 100}
    found = read(Jsonl, written(tmp_path, [good, line, good]), max_document_bytes=100)
    assert [document.reason for document in found] == ["", reason, ""]
    assert found[1].place == "line 2"
    shown = " ".join(found[1].paragraphs)
    assert shown.startswith(excerpt)
    assert len(shown) <= 200


def test_missing_fields_are_named(tmp_path: Path) -> None:
    records = [{"meta": {"body": "x", "id": 1}}, {"meta": "x"}, {"meta": {"text": "x"}}]
    found = read(Jsonl, written(tmp_path, records), text_field="meta.text")
    assert [document.reason for document in found] == [MALFORMED, MALFORMED, ""]
    assert found[0].paragraphs[0].startswith('no field "text" in "meta"; the fields are body, id: ')
    assert found[1].paragraphs[0].startswith('no JSON object in "meta" but a string: ')


def test_line_beyond_the_limit_is_over_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "LINE_MARGIN", 100)
    path = written(tmp_path, [{"text": "y"}, {"text": "x", "html": "z" * 10_000}, {"text": "y"}])
    found = read(Jsonl, path, max_document_bytes=10)
    assert [document.reason for document in found] == ["", OVER_LONG, ""]
    assert read(Jsonl, path, max_document_bytes=3_000)[1].paragraphs == ("x",)


@pytest.mark.parametrize("record", [{"body": "x"}, b"Some plain text.", ["x"], {"text": 1}])
def test_a_file_without_the_field_ends_the_run_early(tmp_path: Path, record: object) -> None:
    message = r'a\.jsonl: none of the first 100 lines is a JSON object with text in the field "text".*line 1: '
    path = written(tmp_path, [record] * 150)
    with pytest.raises(InputError, match=message):
        read(Jsonl, path)
    # A short file may be damaged by chance; one good line shows that the field is correct.
    for records in (
        [record] * 99,
        [{"text": "Good."}] + [record] * 150,
        [record] * 50 + [{"text": ""}] + [record] * 99,
    ):
        assert len(read(Jsonl, written(tmp_path, records))) == len(records)
    path = written(tmp_path, [record] * 150)
    assert len(read_parts(Jsonl, path, (1, path.stat().st_size))) == 149


rows = st.sampled_from(
    [b'{"text": "One."}', '{"text": "\\u00e9 é\\nTwo."}'.encode(), b"", b"\r", b"broken", b'{"text": "caf\xe9"}', b" ",
     b'{"text": ""}', b'{"text": "' + b"long " * 30 + b'"}', b'{"a": "' + b"long " * 40 + b'", "text": "x"}']
)  # fmt: skip


@given(st.lists(rows, max_size=6), st.lists(st.integers(0, 1000), max_size=8), st.booleans())
@settings(deadline=None, max_examples=150)
def test_any_split_gives_the_same_documents(
    tmp_path_factory: pytest.TempPathFactory, records: list[bytes], cuts: list[int], ended: bool
) -> None:
    content = b"\n".join(records) + b"\n" * ended
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl, "LINE_MARGIN", 50)
        patch.setattr(lines, "_BUFFER", 16)
        path = tmp_path_factory.getbasetemp() / "any.jsonl"
        path.write_bytes(content)
        whole = read(Jsonl, path, max_document_bytes=60)
        edges = sorted({0, len(content), *(cut % (len(content) + 1) for cut in cuts)})
        assert contents(read_parts(Jsonl, path, edges, max_document_bytes=60)) == contents(whole)
        assert contents(read_parts(Jsonl, path, range(len(content) + 1), max_document_bytes=60)) == contents(whole)


def test_positions_in_later_parts_are_offsets(tmp_path: Path) -> None:
    path = written(tmp_path, [{"text": str(number)} for number in range(20)])
    content = path.read_bytes()
    for document in read_parts(Jsonl, path, (25, len(content))):
        offset = int(document.place.removeprefix("byte "))
        assert json.loads(content[offset:].split(b"\n")[0]) == {"text": document.paragraphs[0]}


def test_large_files_are_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, [{"text": "x" * 100}] * 10)
    assert split(Jsonl, path) == [Part(str(path), size=path.stat().st_size)]
    monkeypatch.setattr(lines, "PART_BYTES", 300)
    assert len(split(Jsonl, path)) == 4
    assert sum(part.size for part in split(Jsonl, path)) == path.stat().st_size


def test_truncated_compression_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path, [PACKERS[".gz"](b'{"text": "x"}\n' * 1000)[:-20]], "a.jsonl.gz")
    with pytest.raises(InputError, match=r"a\.jsonl\.gz: missing, damaged or truncated after line"):
        read(Jsonl, path)

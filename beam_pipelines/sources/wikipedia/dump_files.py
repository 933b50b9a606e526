"""Reads the bytes of MediaWiki dumps: parts of plain files, and of multistream bz2 files with an index file.

A multistream dump is a sequence of bz2 streams: one with the head, then one for every 100 pages, then one with the end.
Its index has one line per page, `offset:page id:title`, with the offset of the page's stream.
See https://meta.wikimedia.org/wiki/Data_dumps/Dump_format
"""

from __future__ import annotations

import bz2
import io
import re
from collections.abc import Iterator

from beam_pipelines.errors import InputError
from beam_pipelines.output import storage
from beam_pipelines.sources.documents import InputFile, Part
from beam_pipelines.sources.lines import READ_ERRORS, check_size, opened

# Compressed bytes per part: some seconds of work at a compression ratio of four and 5 MB/s of wikitext.
STREAM_PART_BYTES = 8 << 20
_CHUNK = 1 << 20
_MULTISTREAM = re.compile(r"(.*-multistream)(\d*)\.xml(-p\d+p\d+)?\.bz2")
_INDEX = re.compile(r".*-multistream-index\d*\.txt(-p\d+p\d+)?(\.bz2)?")


def is_index(path: str) -> bool:
    """Returns True if the file name is that of the index of a multistream dump."""
    return _INDEX.fullmatch(storage.split(path)[1]) is not None


def chunks_of(part: Part) -> Iterator[bytes]:
    """Yields the decompressed bytes of a part of a dump.

    For a range of a plain file the bytes continue to the end of the file, because a page may end beyond the range. For
    a range of a compressed file they are the bytes of its streams. Raises InputError if the file is missing, damaged,
    truncated, or contradicts its index.
    """
    read = 0
    chunks = _streams(part) if is_multistream(part) else _plain(part)
    try:
        for chunk in chunks:
            yield chunk
            read += len(chunk)
    except READ_ERRORS as error:
        where = f"after {read} bytes of text from byte {part.begin} on"
        raise InputError(f"{part.path}: missing, damaged or truncated {where}: {error}") from error


def is_multistream(part: Part) -> bool:
    """Returns True if `part` is a range of bz2 streams."""
    return part.end > 0 and part.path.endswith(".bz2")


def ends_file(part: Part) -> bool:
    """Returns True if the bytes of `part` continue to the end of the file."""
    if not is_multistream(part):
        return True
    with storage.opened(part.path) as raw:
        return raw.seek(0, io.SEEK_END) <= part.end


def index_of(path: str) -> str | None:
    """Returns the path of the index of a multistream dump; None if there is no index."""
    directory, name = storage.split(path)
    match = _MULTISTREAM.fullmatch(name)
    if not match:
        return None
    stem, number, pages = match[1], match[2], match[3] or ""
    plain = storage.join(directory, f"{stem}-index{number}.txt{pages}")
    return next(filter(storage.exists, (f"{plain}.bz2", plain)), None)


def _stream_offsets(index: str, file: InputFile) -> list[int]:
    offsets = set()
    last = b""
    number = 0
    try:
        with opened(index) as lines:
            for number, line in enumerate(lines, start=1):
                text, _, page = line.partition(b":")
                if text == last:
                    continue
                if not text.isdigit() or b":" not in page:
                    raise InputError(f"{index}: line {number} is not offset:page id:title. Received: {line[:80]!r}")
                offsets.add(int(text))
                last = text
    except READ_ERRORS as error:
        raise InputError(f"{index}: missing, damaged or truncated after line {number}: {error}") from error
    if not offsets:
        raise InputError(f"{index}: lists no stream.")
    if max(offsets) >= file.size:
        raise InputError(
            f"{index}: lists a stream at byte {max(offsets)}, but {file.path} has {file.size} bytes: they belong to "
            "different dumps, or one is truncated."
        )
    return sorted(offsets)


def stream_parts(file: InputFile, index: str) -> Iterator[Part]:
    """Yields the parts of a multistream dump, which end between streams; their labels list the offsets of the streams.

    Raises InputError if the index cannot be read, or has offsets beyond the end of the file.
    """
    begin = 0
    starts: list[int] = []
    for offset in _stream_offsets(index, file):
        if offset - begin >= STREAM_PART_BYTES:
            yield _stream_part(file, begin, offset, starts)
            begin, starts = offset, []
        starts.append(offset)
    yield _stream_part(file, begin, file.size, starts)


def _stream_part(file: InputFile, begin: int, end: int, starts: list[int]) -> Part:
    return Part(file.path, begin, end, end - begin, " ".join(map(str, starts)))


def _plain(part: Part) -> Iterator[bytes]:
    with opened(part.path) as stream:
        if part.end:
            check_size(part, stream.seek(0, io.SEEK_END))
            stream.seek(part.begin)
        # Small reads return all bytes before a damaged place, so that its position can be reported.
        while chunk := stream.read1(_CHUNK):
            yield chunk


def _streams(part: Part) -> Iterator[bytes]:
    """Decompresses the streams of a range and checks their offsets against the index."""
    expected = {int(start) for start in part.label.split()}
    with storage.opened(part.path) as raw:
        check_size(part, raw.seek(0, io.SEEK_END))
        raw.seek(part.begin)
        position, data = part.begin, b""
        while position < part.end or data:
            begin = position - len(data)
            expected.discard(begin)
            stream = bz2.BZ2Decompressor()
            while not stream.eof:
                if not data and stream.needs_input:
                    data = raw.read(min(_CHUNK, part.end - position))
                    position += len(data)
                    if not data:
                        raise InputError(_contradiction(part, f"the stream at byte {begin} does not end there"))
                yield _decompress(part, stream, data, begin)
                data = b""
            data = stream.unused_data
    if expected:
        raise InputError(_contradiction(part, f"no stream begins at byte {min(expected)}"))


def _decompress(part: Part, stream: bz2.BZ2Decompressor, data: bytes, begin: int) -> bytes:
    try:
        return stream.decompress(data, _CHUNK)
    except OSError as error:
        at = "listed in its index, " if begin == part.begin else ""
        raise InputError(f"{part.path}: the bz2 stream at byte {begin}, {at}is damaged or missing: {error}") from error


def _contradiction(part: Part, fault: str) -> str:
    return (
        f"{part.path}: its index lists streams between the bytes {part.begin} and {part.end}, but {fault}: the dump is "
        "truncated or damaged, or its index belongs to another dump."
    )

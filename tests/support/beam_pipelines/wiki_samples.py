"""Small MediaWiki dumps, and functions to write and read them."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Iterable
from pathlib import Path
from xml.sax.saxutils import escape

from beam_pipelines.sources.documents import InputFile, Part, RawDocument, ReadSettings
from beam_pipelines.sources.wikipedia.source import Wikipedia

HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="ltg">
  <siteinfo>
    <dbname>ltgwiki</dbname>
    <namespaces>
      <namespace key="0" case="first-letter" />
      <namespace key="1" case="first-letter">Sprīža</namespace>
      <namespace key="6" case="first-letter">Fails</namespace>
      <namespace key="14" case="first-letter">Kategoreja</namespace>
    </namespaces>
  </siteinfo>
""".encode()
END = b"</mediawiki>\n"


def page(number: int, text: str, title: str = "", extra: str = "<ns>0</ns>", model: str = "wikitext") -> bytes:
    """Returns one page; `extra` is inserted between its title and its number."""
    return (
        f"  <page>\n    <title>{escape(title or f'Title {number}')}</title>\n    {extra}\n    <id>{number}</id>\n"
        f"    <revision>\n      <id>{number * 1000}</id>\n      <model>{model}</model>\n"
        f'      <text bytes="{len(text.encode())}" xml:space="preserve">{escape(text)}</text>\n'
        "    </revision>\n  </page>\n"
    ).encode()


def articles(count: int) -> list[bytes]:
    """Returns articles of different lengths, every third one with multi-byte letters."""
    return [
        page(n, f"'''{n}''' is {'é中 ' * (n % 3)}a number.\n\n" + "It has words. " * (n % 7)) for n in range(1, count)
    ]


def dump(pages: Iterable[bytes]) -> bytes:
    return HEAD + b"".join(pages) + END


def write_multistream(path: Path, pages: list[bytes], pages_a_stream: int, head: bytes = HEAD) -> Path:
    """Writes a multistream dump and its index; returns the path of the index."""
    streams = [bz2.compress(head)]
    lines = []
    for start in range(0, len(pages), pages_a_stream):
        offset = sum(map(len, streams))
        group = pages[start : start + pages_a_stream]
        lines += [f"{offset}:{start + index}:A title: with colons" for index in range(len(group))]
        streams.append(bz2.compress(b"".join(group)))
    path.write_bytes(b"".join([*streams, bz2.compress(END)]))
    index = path.with_name(path.name.replace("-multistream", "-multistream-index").replace(".xml", ".txt"))
    index.write_bytes(bz2.compress("\n".join([*lines, ""]).encode()))
    return index


def write_dump(path: Path, content: bytes) -> Path:
    """Writes a dump, compressed according to its suffix."""
    packer = {".gz": gzip.compress, ".bz2": bz2.compress}.get(path.suffix, bytes)
    path.write_bytes(packer(content))
    return path


def parts_of(path: Path) -> list[Part]:
    return list(Wikipedia(ReadSettings()).split(InputFile(str(path), path.stat().st_size, 0.0)))


def read(path: Path, parts: Iterable[Part] | None = None, limit: int = 10_000_000) -> list[RawDocument]:
    """Reads a dump part by part; returns the documents without file names."""
    format = Wikipedia(ReadSettings(max_document_bytes=limit))
    found = [document for part in (parts_of(path) if parts is None else parts) for document in format.read(part)]
    assert {document.file for document in found} <= {str(path)}
    return [document._replace(file="") for document in found]

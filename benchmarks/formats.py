"""Reading speed of all formats on one core, compared with mwparserfromhell's `strip_code` on the same wikitext."""

from __future__ import annotations

import bz2
import html
import json
import re
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import mwparserfromhell
import pyarrow
import pyarrow.parquet

from beam_pipelines.sources.corpus import FORMATS
from beam_pipelines.sources.documents import InputFile, ReadSettings
from benchmarks import measure, texts

PEER = "mwparserfromhell.strip_code"
_TITLE = "Reading formats"
# Name prefixes of the dumps; number of wikitext pages that the peer reads.
_DUMPS, _PEER_PAGES = ("enwiki", "ltgwiki"), 12
_PAGE_TEXT = re.compile(r"<text[^>]*>(.*?)</text>", re.DOTALL)


def measure_formats(raw: Path, sample: texts.Sample, megabytes: float, work: Path, output: Path) -> None:
    """Prints megabytes of uncompressed file per CPU second (medians), and writes the JSON.

    Args:
        raw: folder with `dumps` of MediaWiki and `wikiextractor` output.
        sample: text for the formats without files.
        megabytes: size of that text.
        work: folder for temporary files, which the caller deletes.
        output: output directory of the JSON.
    """
    contestants: list[tuple[str, int, Callable[[], object]]] = []
    for name, format, files in [*_wiki_files(raw, work), *_text_files(sample, megabytes, work)]:
        contestants.append((name, sum(file.stat().st_size for file in files), _reader(format, files)))
        if name == f"wikipedia ({_DUMPS[0]})":
            contestants.append(_peer(files[0]))
    measure.heading(f"{_TITLE}, MB of uncompressed file per CPU second on one core (medians of {measure.REPETITIONS})")
    rates = {}
    for name, size, read in contestants:
        read()
        seconds = []
        for _ in range(measure.REPETITIONS):
            started = time.process_time()
            read()
            seconds.append(time.process_time() - started)
        rates[name] = size / 1e6 / statistics.median(seconds)
        print(f"  {name:<32}{rates[name]:>10.1f} MB/s   of {size / 1e6:.1f} MB", flush=True)
    measure.save(_TITLE, {"unit": "MB/s", "results": rates}, output)


def _reader(format: str, files: Iterable[Path]) -> Callable[[], int]:
    reader = FORMATS[format](ReadSettings())

    def read() -> int:
        parts = [part for file in files for part in reader.split(InputFile(str(file), file.stat().st_size, 0.0))]
        return sum(1 for part in parts for _ in reader.read(part))

    return read


def _peer(dump: Path) -> tuple[str, int, Callable[[], object]]:
    pages = [html.unescape(text) for text in _PAGE_TEXT.findall(dump.read_text(encoding="utf-8"))]
    pages = [page for page in pages if not page.lower().startswith("#redirect")][:_PEER_PAGES]
    size = sum(len(page.encode()) for page in pages)
    return PEER, size, lambda: [mwparserfromhell.parse(page).strip_code() for page in pages]


def _wiki_files(raw: Path, work: Path) -> Iterable[tuple[str, str, list[Path]]]:
    for name in _DUMPS:
        dump = next((raw / "dumps").glob(f"{name}-*"))
        plain = work / f"{name}.xml"
        content = dump.read_bytes()
        plain.write_bytes(bz2.decompress(content) if dump.suffix == ".bz2" else content)
        yield f"wikipedia ({name})", "wikipedia", [plain]
    yield "wikiextractor", "wikiextractor", sorted((raw / "wikiextractor").iterdir())


def _text_files(sample: texts.Sample, megabytes: float, work: Path) -> Iterable[tuple[str, str, list[Path]]]:
    paths = sample.write(megabytes)
    documents = ["\n".join(paragraphs) for path in paths for paragraphs in texts.documents_of(path)]
    yield "text", "text", paths
    (work / "text.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in documents), encoding="utf-8")
    yield "jsonl", "jsonl", [work / "text.jsonl"]
    pyarrow.parquet.write_table(pyarrow.table({"text": documents}), work / "text.parquet", compression="none")
    yield "parquet", "parquet", [work / "text.parquet"]

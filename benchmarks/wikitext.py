"""`python -m benchmarks.wikitext [--dumps DIR]`: share of the prose of dumps that is read, and markup left in it.

The reference is mwparserfromhell's `strip_code` of every paragraph, after templates, tables, references, lists,
headings, pictures and categories are removed. Prints a table with a row for each dump, and writes JSON to --output.

The language of a wiki is taken from a file name such as `frwiki-...`, or else from the head of the dump. For the pages
of `--pages`, which are single files of wikitext, it is `--language`.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import mwparserfromhell
from mwparserfromhell.nodes import Argument, Comment, Heading, Node, Tag, Template, Wikilink
from mwparserfromhell.wikicode import Wikicode

from beam_pipelines.sources.documents import Part
from beam_pipelines.sources.wikipedia.dump_files import chunks_of
from beam_pipelines.sources.wikipedia.dump_pages import Extent, pages_of, parsed_page, site_info_of
from beam_pipelines.sources.wikipedia.names import LANGUAGES, WikiNames, is_disambiguation, is_redirect
from beam_pipelines.sources.wikipedia.wikitext import passages
from benchmarks import measure

_TITLE = "Wikitext coverage"
_RAW = Path(__file__).parents[2] / "shared/data/raw"
_LONGEST_PAGE = 32 << 20
_WIKI = re.compile(r"(?:^|[^a-z])([a-z]{2,12})wiki")

# Words; single characters in scripts without spaces.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+")
_NO_PROSE_TAG = re.compile(
    "ref|references|table|gallery|math|chem|ce|pre|source|syntaxhighlight|timeline|score|hiero|imagemap|graph|mapframe|"
    "maplink|templatedata|templatestyles|inputbox|categorytree|includeonly|section|style|ul|ol|dl|del|s|strike"
)
_FILE_NAME = re.compile(r"\.(?:jpe?g|png|gif|svg|tiff?|webp|ogg|pdf)\s*$", re.I)
_VARIANT = re.compile(r"-\{[^{}]*\}-")
# List items, table rows that the parser misses, headings, lines in bold, preformatted lines.
_NO_PROSE_LINE = re.compile(
    r"[ \t]*(?:[*#:;|!]|\{\||</?(?:table|t[rdh]|caption|li)\b)|[ \t]*=.*=[ \t]*$|'''[^'\n]+'''[ \t:.]*$|[ \t](?!.{60})",
    re.I,
)
MARKUP = re.compile(
    r"\{\{|\}\}|\[\[|\]\]|\{\||\|\}|\|\||'''?(?=[^'])|__[A-Z]+__|<!--|-->|&(?:nbsp|amp|lt|gt|quot|[mn]dash|#\d+);|"
    r"</?(?:ref|references|br|small|big|div|span|su[bp]|gallery|math|nowiki|table|t[rdh]|p|b|i|u|s|center|font|code|tt|"
    r"blockquote|li|[uod]l|h[1-6]|noinclude|includeonly|onlyinclude)\b[^<>]*>"
)


@dataclass(frozen=True)
class Coverage:
    """Counts of a dump: pages, words of the reference, words in common with it, words read, markup in them."""

    pages: int = 0
    reference_words: int = 0
    common_words: int = 0
    words: int = 0
    markup: int = 0

    @property
    def share(self) -> float:
        """The share of the reference's words that is read, by the counts of each word on a page."""
        return self.common_words / max(self.reference_words, 1)


def measure_pages(pages: Iterable[str], names: WikiNames) -> Coverage:
    """Compares the passages of pages with those of mwparserfromhell.

    Args:
        pages: wikitext of the pages.
        names: names of their wiki.
    """
    total = Counter[str]()
    for wikitext in pages:
        texts = passages(wikitext, names)
        wanted, words = (
            Counter(_WORD.findall(reference_text(wikitext, names))),
            Counter(_WORD.findall("\n".join(texts))),
        )
        total.update(
            pages=1,
            reference_words=wanted.total(),
            common_words=(wanted & words).total(),
            words=words.total(),
            markup=sum(len(MARKUP.findall(passage)) for passage in texts),
        )
    return Coverage(**total)


def reference_text(wikitext: str, names: WikiNames) -> str:
    """Returns the prose of a page by mwparserfromhell."""
    code = mwparserfromhell.parse(_VARIANT.sub("", wikitext.replace("\r\n", "\n")))
    _remove_no_prose(code, names)
    lines = (line for line in str(code).split("\n") if not _NO_PROSE_LINE.match(line))
    return str(mwparserfromhell.parse("\n".join(lines)).strip_code())


def _remove_no_prose(code: Wikicode, names: WikiNames) -> None:
    for node in list(code.nodes):
        if _is_no_prose(node, names):
            code.remove(node)
        elif isinstance(node, Wikilink) and node.text is not None:
            _remove_no_prose(node.text, names)
        elif isinstance(node, Tag) and node.contents is not None:
            _remove_no_prose(node.contents, names)


def _is_no_prose(node: Node, names: WikiNames) -> bool:
    if isinstance(node, Tag):
        return _NO_PROSE_TAG.fullmatch(str(node.tag).strip().lower()) is not None
    if isinstance(node, Wikilink):
        prefix, colon, _ = str(node.title).partition(":")
        is_file = _FILE_NAME.search(str(node.title)) is not None
        return bool(colon and prefix.strip()) and (is_file or names.is_left_out(prefix))
    return isinstance(node, (Argument, Comment, Heading, Template))


def articles_of(dump: Path) -> Iterator[str]:
    """Yields the wikitext of the articles in a dump."""
    part = Part(str(dump))
    for raw_page in pages_of(str(dump), chunks_of(part), Extent(), _LONGEST_PAGE):
        page = parsed_page(raw_page.content)
        if page.namespace or page.redirect or page.model != "wikitext" or is_redirect(page.text):
            continue
        if not is_disambiguation(page.title, page.text):
            yield page.text


def names_of(dump: Path) -> WikiNames:
    """Returns the names of a dump's wiki."""
    site = site_info_of(chunks_of(Part(str(dump))))
    match = _WIKI.search(dump.name)
    return WikiNames().with_local(site.namespaces, match[1] if match and match[1] in LANGUAGES else site.language)


def pages_of_folder(folder: Path) -> Iterator[str]:
    """Yields the wikitext of the text files in a folder, except those that have lost their line breaks."""
    for path in sorted(folder.glob("*.txt")):
        text = path.read_bytes().decode().strip()
        if "\n" in text:
            # Pages copied from dumps are escaped.
            yield html.unescape(text) if "&lt;ref" in text else text


def main() -> None:
    """Measures every dump of a folder, and the pages of another folder."""
    parser = measure.parser(__doc__)
    parser.add_argument("--dumps", type=Path, default=_RAW / "dumps", help="folder of MediaWiki XML dumps")
    parser.add_argument("--pages", type=Path, default=_RAW / "wikitext_pages", help="folder of .txt files of wikitext")
    parser.add_argument("--language", default="en", help="language code of the wiki of --pages; default: %(default)s")
    parser.add_argument("--every", type=int, default=1, help="interval of the measured articles; default: %(default)s")
    args = parser.parse_args()
    if not args.dumps.is_dir():
        parser.error(f"--dumps must be a folder. Received: {args.dumps}")
    measure.heading(f"{_TITLE}: words of mwparserfromhell's prose that are read")
    print(f"  {'dump':<42}{'language':>9}{'pages':>7}{'words':>10}{'share':>10}{'read':>10}{'markup':>8}")
    rows = {}
    for dump in sorted(path for path in args.dumps.iterdir() if path.is_file()):
        rows[dump.name] = _row(dump.name, list(articles_of(dump))[:: args.every], names_of(dump))
    if args.pages.is_dir():
        names = WikiNames(language=args.language)
        rows[args.pages.name] = _row(args.pages.name, list(pages_of_folder(args.pages)), names)
    measure.save(_TITLE, {"every": args.every, "results": rows}, args.output)


def _row(name: str, pages: list[str], names: WikiNames) -> dict[str, object]:
    coverage = measure_pages(pages, names)
    print(
        f"  {name[:40]:<42}{names.language:>9}{coverage.pages:>7}{coverage.reference_words:>10}{coverage.share:>10.2%}"
        f"{coverage.words:>10}{coverage.markup:>8}",
        flush=True,
    )
    return {"language": names.language, "share": coverage.share, **asdict(coverage)}


if __name__ == "__main__":
    main()

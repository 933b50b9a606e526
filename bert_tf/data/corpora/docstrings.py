"""Python docstrings as a text corpus.

Docstrings of the standard library and the installed packages are read with `ast` (no code is imported or run) and
reflowed to prose. A document is a module with its functions, or a class with its methods. Its label is the name of
the library.
"""

from __future__ import annotations

import ast
import inspect
import re
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

# Tests and generated code contain no documentation. Vendored copies repeat other libraries under a wrong label.
_SKIPPED_FOLDERS = {
    "__pycache__", "site-packages", "test", "tests", "testing", "idlelib", "lib2to3", "pydoc_data",
    "_vendor", "vendor", "vendored", "_vendored_packages", "turtledemo", "examples",
}  # fmt: skip
_SKIPPED_FILES = re.compile(r"(_pb2|_pb2_grpc|_test|_tests)\.py$|^test_|^conftest\.py$|^setup\.py$")
_FENCE = re.compile(r"^\s*(```|~~~)")
_RULE = re.compile(r"^\s*([=\-~^*#+|:.]\s?){3,}\s*[\d.e+-]*$")
_DIRECTIVE = re.compile(r"^\s*\.\. [\w-]+::.*$|^\s*:(?:param|type|rtype|raises|returns?)\b[^:]*:\s*|^\s*@\w+.*$")
_FIELD = re.compile(r"^\s*(?:[-*+]\s+)?[`*]{0,2}[A-Za-z_][\w.*`, ]{0,40}(?:\s*\([^)]*\))?\s*:\s+(?=\S)")
_BULLET = re.compile(r"^\s*(?:[-*+•]|\d+[.)])\s+")
_MARKUP = (
    (re.compile(r"\[([^\]]+)\]\([^)]*\)"), r"\1"),
    (re.compile(r":[\w:+-]+:`~?([^`<]+?)(?:\s*<[^>]*>)?`"), r"\1"),
    (re.compile(r"`+([^`<]+?)(?:\s*<[^>]*>)?`+_{0,2}"), r"\1"),
    (re.compile(r"\*\*([^*]+)\*\*|(?<!\w)\*([^*\s][^*]*)\*"), r"\1\2"),
    (re.compile(r"\\(?=\W)|\s+"), " "),
)
_WORD = re.compile(r"[A-Za-z][a-z]+(?:['’-][a-z]+)?")
_MINIMUM_WORDS = 6


@dataclass(frozen=True)
class LabelledDocument:
    """A document with the name of its library (`label`) and of its module or class (`name`)."""

    label: str
    name: str
    paragraphs: tuple[str, ...]


def documentation_files(packages: Sequence[str] | None = None) -> list[tuple[str, Path]]:
    """Lists the source files of the standard library and the installed packages as sorted (label, path) pairs.

    Labels are top-level import names; `packages` are those to keep, None keeps all. Raises ValueError if a package is
    not installed.
    """
    files: list[tuple[str, Path]] = []
    paths = sysconfig.get_paths()
    for root in dict.fromkeys((paths["stdlib"], paths["purelib"], paths["platlib"])):
        for entry in sorted(Path(root).iterdir()):
            label = entry.stem if entry.suffix == ".py" else entry.name
            if not label.isidentifier() or (packages is not None and label not in packages):
                continue
            files += [(label, path) for path in _python_files(entry)]
    missing = sorted(set(packages or ()) - {label for label, _ in files})
    if missing:
        raise ValueError(f"no source files of these packages are installed: {', '.join(missing)}")
    return sorted(set(files))


def _python_files(entry: Path) -> Iterator[Path]:
    if entry.is_dir():
        if entry.name not in _SKIPPED_FOLDERS:
            for child in entry.iterdir():
                yield from _python_files(child)
    elif entry.suffix == ".py" and not _SKIPPED_FILES.search(entry.name):
        yield entry


def library_documents(packages: Sequence[str] | None = None) -> Iterator[LabelledDocument]:
    """Yields the documents of `packages` (None: all), in the order of `documentation_files`."""
    for label, path in documentation_files(packages):
        yield from file_documents(label, path)


def file_documents(label: str, path: Path) -> list[LabelledDocument]:
    """Returns the documents of a source file; an empty list if it is not valid Python or has no docstrings."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # some sources are templates or use the syntax of another version
        return []
    bodies: list[tuple[str, ast.AST]] = [(path.stem, tree)]
    bodies += [(f"{path.stem}.{node.name}", node) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    documents = []
    for name, node in bodies:
        texts = [_docstring(node)] + [_docstring(child) for child in _functions(node)]
        paragraphs = tuple(paragraph for text in texts for paragraph in prose(text))
        if paragraphs:
            documents.append(LabelledDocument(label, name, paragraphs))
    return documents


def _functions(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child


def _docstring(node: ast.AST) -> str:
    return ast.get_docstring(node, clean=False) or ""  # type: ignore[arg-type]


def prose(docstring: str) -> list[str]:
    """Reflows a docstring to paragraphs of prose, one line each, without code, tables, headings and mark-up."""
    paragraphs = [_plain(" ".join(lines)) for lines in _blocks(inspect.cleandoc(docstring))]
    return [paragraph for paragraph in paragraphs if _is_prose(paragraph)]


def _blocks(text: str) -> Iterator[list[str]]:
    """Groups the lines of `text` into paragraphs, without fenced, indented and interactive code."""
    lines: list[str] = []
    fenced = False
    code_indent: int | None = None
    for line in [*text.splitlines(), ""]:
        if _FENCE.match(line):
            fenced = not fenced
            continue
        stripped = line.strip()
        indent = len(line) - len(line.lstrip())
        if code_indent is not None and stripped and indent <= code_indent:
            code_indent = None
        starts_item = bool(_BULLET.match(line) or _FIELD.match(line) or _DIRECTIVE.match(line))
        if not stripped or starts_item or _RULE.match(line):
            if lines:
                yield lines
            lines = []
        is_code = fenced or code_indent is not None or stripped.startswith((">>>", "... ", "$ "))
        if not stripped or is_code or _RULE.match(line):
            continue
        lines.append(_BULLET.sub("", _FIELD.sub("", _DIRECTIVE.sub("", line))).strip())
        if stripped.endswith("::"):
            code_indent = indent


def _plain(text: str) -> str:
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    return text.replace("::", ":").strip()


def _is_prose(text: str) -> bool:
    """Returns True if `text` starts and ends like a sentence and consists mostly of words."""
    if not text or text[-1] not in ".!?:" or not (text[0].isupper() or text[0] in "\"'("):
        return False
    words = _WORD.findall(text)
    letters = sum(map(len, words)) + text.count(" ")
    return len(words) >= _MINIMUM_WORDS and letters >= 0.8 * len(text) and "http" not in text

"""Writes the tables of settings in docs/training.md: `python docs/settings.py [--check]`.

Names, types and defaults come from the dataclasses of `bert_tf.config`, descriptions from their docstrings.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[1]
DOCUMENT = REPOSITORY / "docs" / "training.md"
BEGIN, END = "<!-- settings: begin, written by docs/settings.py -->", "<!-- settings: end -->"


def descriptions(docstring: str) -> dict[str, str]:
    """Returns the entries of a docstring's Args section, on one line each.

    Args:
        docstring: in Google style; an entry may describe several names, separated by commas.
    """
    section = re.search(r"^Args:\n((?:[ ]{4,}.*\n|\n)*)", docstring + "\n", re.MULTILINE)
    entries: dict[str, str] = {}
    for entry in re.split(r"\n(?=[ ]{4}\w)", section[1].rstrip() if section else ""):
        names, _, text = entry.strip().partition(": ")
        for name in re.sub(r"\s*\(.*\)", "", names).split(", "):
            entries[name] = " ".join(text.split())
    return entries


def table(config: Any) -> str:
    """Returns the Markdown table of a dataclass. Raises ValueError if its docstring lacks a field."""
    entries = descriptions(inspect.getdoc(config) or "")
    rows = ["| field | type | default | description |", "|---|---|---|---|"]
    for field in dataclasses.fields(config):
        text = entries.get(field.name)
        if not text:
            raise ValueError(f"The Args section of `{config.__name__}` must describe `{field.name}`.")
        factory = field.default_factory
        default = factory.__name__ if isinstance(factory, type) else repr(field.default)
        cells = (f"`{field.name}`", f"`{field.type}`", f"`{default}`", text)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)


def updated(text: str) -> str:
    """Returns a document with new tables between its two markers."""
    sys.path.insert(0, str(REPOSITORY))
    from bert_tf.config import BertConfig, CleaningConfig, DataConfig, TrainingConfig

    configs = (TrainingConfig, BertConfig, DataConfig, CleaningConfig)
    tables = "\n\n".join(f"### {config.__name__}\n\n{table(config)}" for config in configs)
    before, separator, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not separator or not end:
        raise ValueError(f"The document must contain {BEGIN!r} and {END!r}, in this order.")
    return f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}"


def main(arguments: list[str]) -> int:
    """Rewrites the document, or with `--check` compares it and returns 1 if it is not up to date."""
    text = DOCUMENT.read_text(encoding="utf-8")
    new = updated(text)
    if arguments == ["--check"]:
        if new != text:
            print("docs/training.md is not up to date. Run `python docs/settings.py`.", file=sys.stderr)
        return int(new != text)
    DOCUMENT.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

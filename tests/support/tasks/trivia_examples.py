"""A small data set in the layout of TriviaQA's release: `qa` and `evidence`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TEXTS = {
    "wikipedia/River_Aire.txt": "The Aire is a river.\n\nIt flows through Leeds, a city. Leeds grew with wool.",
    "wikipedia/Leeds.txt": "It has a museum, and St. John's Church stands in it.",
    "web/12/12_7.txt": "Trains to  LEEDS \u2019n Hull leave at \u0130zmir Street.",
    "web/12/12_8.txt": "Nothing is known about this.",
}


def answer(*aliases: str, **fields: Any) -> dict[str, Any]:
    value = aliases[0] if aliases else ""
    return {
        "Value": value.title(),
        "NormalizedValue": value,
        "NormalizedAliases": list(aliases),
        "Type": "FreeForm",
    } | fields


def pages(*names: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"Filename": name, "Title": name.removesuffix(".txt").replace("_", " ")} | fields for name in names]


def entry(name: str, gold: dict[str, Any], wikipedia: list[dict], web: list[dict] | None = None, **fields: Any) -> dict:
    lists = {"EntityPages": wikipedia, "SearchResults": web or []}
    return {"QuestionId": name, "Question": f"Which {name}?", "Answer": gold} | lists | fields


def write_release(
    folder: Path, *entries: dict[str, Any], domain: str = "Web", split: str = "train", **fields: Any
) -> Path:
    """Writes the documents and a file of questions; returns the file."""
    for name, text in TEXTS.items():
        path = folder / "evidence" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    file = folder / "qa" / f"{domain.lower()}-{split}.json"
    file.parent.mkdir(exist_ok=True)
    content = {"Data": list(entries), "Domain": domain, "Split": split, "VerifiedEval": False, "Version": 1.0}
    file.write_text(json.dumps(content | fields), encoding="utf-8")
    return file

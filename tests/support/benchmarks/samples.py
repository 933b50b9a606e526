"""Corpora of made-up words for tests of benchmarks."""

from __future__ import annotations

import random
from pathlib import Path

WORDS = [a + b for a in ("ka", "lo", "mi", "ne") for b in ("ba", "de", "fi", "gu")]


def write_corpus(path: Path) -> None:
    rng = random.Random(0)
    documents = []
    while sum(map(len, documents)) < 150_000:
        sentences = [" ".join(rng.choices(WORDS, k=9)).capitalize() + "." for _ in range(12)]
        documents.append("\n".join(" ".join(sentences[begin : begin + 3]) for begin in range(0, 12, 3)) + "\n")
    path.write_text("\n".join(documents), encoding="utf-8")

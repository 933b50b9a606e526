"""A small corpus, its vocabulary, and ways to run the pipelines on them."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

from bert_tf.text.vocabulary import SPECIAL_TOKENS

WORDS = tuple(f"{a}{b}" for a in ("ka", "lo", "mi", "ne", "pu", "ri", "so", "ta") for b in ("ba", "de", "fi", "gu"))


def documents(count: int, seed: int = 0) -> list[str]:
    """Returns documents of two to six lines, each with one or two capitalised sentences."""
    rng = random.Random(seed)
    texts = []
    for number in range(count):
        lines = []
        for _ in range(rng.randint(2, 6)):
            sentences = [
                " ".join(rng.choices(WORDS, k=rng.randint(3, 12))).capitalize() + "." for _ in range(rng.randint(1, 2))
            ]
            lines.append(" ".join(sentences))
        texts.append(f"{rng.choice(WORDS)} {number}.\n" + "\n".join(lines) + "\n")
    return texts


def write_corpus(directory: Path, texts: list[str], files: int = 3) -> str:
    """Spreads `texts` over files in `directory`; returns their glob."""
    directory.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        (directory / f"part-{number}.txt").write_text("\n".join(texts[number::files]), encoding="utf-8")
    return str(directory / "part-*.txt")


def write_vocabulary(path: Path, specials: tuple[str, ...] = SPECIAL_TOKENS) -> Path:
    digits = [*"0123456789", *(f"##{digit}" for digit in range(10))]
    path.write_text("\n".join([*specials, *digits, ".", *WORDS]) + "\n", encoding="utf-8")
    return path


def contents(directory: Path) -> dict[str, str]:
    """Returns the SHA-256 of every file except the run description, which lists the input files."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.iterdir())
        if path.name != "run.json"
    }

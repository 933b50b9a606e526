"""Runs the benchmark of the data pipelines on a corpus too small for meaningful results, without the peer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bert_tf.text.vocabulary import SPECIAL_TOKENS
from tests.support.benchmarks.samples import WORDS, write_corpus
from tests.support.paths import REPOSITORY

ROOT = REPOSITORY


def write_raw(folder: Path) -> None:
    pages = "".join(
        f"<page><title>{word}</title><ns>0</ns><id>{number}</id><revision><text>'''{word}''' is [[a word]].</text>"
        f"</revision></page>\n"
        for number, word in enumerate(WORDS)
    )
    (folder / "dumps").mkdir(parents=True)
    for name in ("enwiki", "ltgwiki"):
        dump = f'<mediawiki xml:lang="en">\n{pages}</mediawiki>\n'
        (folder / "dumps" / f"{name}-pages.xml").write_text(dump, encoding="utf-8")
    (folder / "wikiextractor").mkdir()
    document = '<doc id="1" url="" title="Word">\nWord\n\nIt is a word.\n</doc>\n'
    (folder / "wikiextractor" / "wiki_00").write_text(document, encoding="utf-8")


@pytest.mark.slow
def test_all_parts_of_the_data_benchmark(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.txt")
    write_raw(tmp_path / "raw")
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join([*SPECIAL_TOKENS, ".", *WORDS]) + "\n", encoding="utf-8")
    sizes = [f"--{part}megabytes=0.1" for part in ("", "tokenizing_", "vocabulary_", "stages_")]
    command = [
        *(sys.executable, "-m", "benchmarks.data", "--lengths=128", "--repetitions=1", "--vocabulary_repetitions=1"),
        *(f"--corpus={tmp_path / 'corpus.txt'}", f"--vocabulary={vocabulary}", f"--output={tmp_path / 'results'}"),
        f"--raw={tmp_path / 'raw'}",
    ]
    done = subprocess.run([*command, *sizes], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found = {path.stem: json.loads(path.read_text()) for path in (tmp_path / "results").iterdir()}
    assert set(found) == {
        "pre-training_examples", "peak_memory", "tokenizing_a_corpus", "vocabulary", "stages", "reading_formats",
    }  # fmt: skip
    assert all(rate > 0 for rate in found["reading_formats"]["results"].values())
    small, large = found["pre-training_examples"]["results"][0]["examples"]
    assert large > 3 * small > 0
    assert 0 < found["peak_memory"]["results"][0]["peak_bytes"] < 8e9
    stages = found["stages"]["results"][0]["cpu_seconds"]
    assert all(seconds > 0 for stage, seconds in stages.items())
    assert {"reading", "sentence splitting", "tokenizing", "drawing pairs", "masking", "encoding"} <= set(stages)

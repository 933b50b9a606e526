"""Learning a vocabulary: the same input, the same file."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from beam_samples import documents, write_corpus

from beam_pipelines import build_vocabulary
from beam_pipelines.errors import PipelineError
from beam_pipelines.learning import learn
from bert_tf.config import ConfigError
from bert_tf.text.vocabulary import SPECIAL_TOKENS, load_vocabulary

LEARN = """
import random, sys
from beam_pipelines.learning import learn
rng = random.Random(3)
words = ["".join(rng.choices("abcdefgh", k=rng.randint(1, 9))) for _ in range(3000)]
counts = {word: rng.randint(1, 30) for word in words}
order = list(counts)
random.Random(int(sys.argv[1])).shuffle(order)
print("\\n".join(learn({word: counts[word] for word in order}, 300, 100).tokens))
"""


def run(glob: str, output: Path, *flags: str) -> dict:
    return build_vocabulary.run([f"--input={glob}", f"--output={output}", *flags])


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return documents(200)


@pytest.fixture(scope="module")
def glob(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> str:
    return write_corpus(tmp_path_factory.mktemp("vocabulary"), texts)


def test_what_is_written(tmp_path: Path, glob: str, texts: list[str]) -> None:
    output = tmp_path / "deep" / "vocab.txt"
    summary = run(glob, output, "--vocabulary_size=90")
    tokens = load_vocabulary(output).tokens
    assert tokens[:5] == SPECIAL_TOKENS
    assert summary["vocabulary_size"] == len(tokens) == 90
    assert (summary["documents_read"], summary["documents_rejected"], summary["unk_rate"]) == (len(texts), 0, 0.0)
    assert summary["words"] == sum(len(text.replace(".", " .").split()) for text in texts)
    assert 1.0 < summary["fertility"] < 3.0
    assert [path.name for path in output.parent.iterdir()] == ["vocab.txt"]


@pytest.mark.parametrize("mode", ["in_memory", "multi_processing"])
def test_order_and_workers_do_not_matter(tmp_path: Path, glob: str, texts: list[str], mode: str) -> None:
    shuffled = list(texts)
    random.Random(1).shuffle(shuffled)
    other = write_corpus(tmp_path / "shuffled", shuffled, files=2)
    run(glob, tmp_path / "one.txt", "--vocabulary_size=90")
    run(other, tmp_path / "other.txt", "--vocabulary_size=90", f"--direct_running_mode={mode}")
    assert (tmp_path / "one.txt").read_bytes() == (tmp_path / "other.txt").read_bytes()


def test_learning_is_the_same_in_every_process() -> None:
    """The trainer's own numbering follows a hash table that differs by process."""
    found = {
        subprocess.run([sys.executable, "-c", LEARN, str(n)], capture_output=True, text=True, check=True).stdout
        for n in range(3)
    }
    assert len(found) == 1
    assert len(found.pop().split()) == 300


def test_frequent_words_become_pieces_and_rare_characters_do_not() -> None:
    counts = Counter({"hello": 100, "help": 50, "z": 3, "né": 1})
    tokens = learn(counts, 30, limit_alphabet=6).tokens
    assert "hello" in tokens
    assert "help" in tokens
    assert "z" in tokens
    assert not {"é", "##é", "n"} & set(tokens)
    assert tokens[5:] == (*sorted(tokens[5:7]), *sorted(tokens[7:11]), *tokens[11:])


def test_a_corpus_that_gives_fewer_pieces(tmp_path: Path, glob: str, capsys: pytest.CaptureFixture[str]) -> None:
    summary = run(glob, tmp_path / "vocab.txt", "--vocabulary_size=100000")
    assert 60 < summary["vocabulary_size"] < 1000
    assert f"gives {summary['vocabulary_size']} pieces, not 100000" in capsys.readouterr().err


def test_cased_keeps_capitals(tmp_path: Path, glob: str) -> None:
    run(glob, tmp_path / "vocab.txt", "--vocabulary_size=120", "--cased")
    assert any(token[:1].isupper() for token in load_vocabulary(tmp_path / "vocab.txt").tokens)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--vocabulary_size=20"], "must be at least [0-9]+ to hold"),
        (["--vocabulary_size=5"], "must be more than 5"),
        ([], "must be more than 5"),
        (["--vocabulary_size=90", "--min_count=0"], "--min_count"),
        (["--vocabulary_size=90", "--seed=3"], "unknown argument --seed"),
    ],
)
def test_bad_flags(tmp_path: Path, glob: str, flags: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run(glob, tmp_path / "vocab.txt", *flags)
    assert not list(tmp_path.iterdir())


def test_rejected_documents(tmp_path: Path, glob: str) -> None:
    with pytest.raises(PipelineError, match=r"of 200 documents were rejected \(over_long \d+\)"):
        run(glob, tmp_path / "vocab.txt", "--vocabulary_size=90", "--max_document_bytes=100")
    assert [path.name for path in tmp_path.iterdir()] == ["vocab.txt.dead_letters.jsonl"]

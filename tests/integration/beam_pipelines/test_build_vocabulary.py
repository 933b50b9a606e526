"""Vocabulary training: the same input results in the same file."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from beam_pipelines import build_vocabulary
from beam_pipelines.errors import PipelineError
from beam_pipelines.vocabulary.train_wordpiece import learn
from bert_tf.config import ConfigError
from bert_tf.text.vocabulary import SPECIAL_TOKENS, load_vocabulary
from tests.support.beam_pipelines.samples import documents, write_corpus

LEARN = """
import random, sys
from beam_pipelines.vocabulary.train_wordpiece import learn
rng = random.Random(3)
words = ["".join(rng.choices("abcdefgh", k=rng.randint(1, 9))) for _ in range(3000)]
counts = {word: rng.randint(1, 30) for word in words}
order = list(counts)
random.Random(int(sys.argv[1])).shuffle(order)
alphabet = [*"abcdefgh", *(f"##{letter}" for letter in "abcdefgh")]
print("\\n".join(learn({word: counts[word] for word in order}, 300, alphabet).tokens))
"""


def run(glob: str, output: Path, *flags: str) -> dict:
    return build_vocabulary.run([f"--input={glob}", f"--output={output}", *flags])


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return documents(200)


@pytest.fixture(scope="module")
def glob(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> str:
    return write_corpus(tmp_path_factory.mktemp("vocabulary"), texts)


def words_of(texts: list[str]) -> list[str]:
    return [word for text in texts for word in text.lower().replace(".", " .").split()]


@pytest.mark.smoke
def test_vocabulary_and_summary_are_written(
    tmp_path: Path, glob: str, texts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "deep" / "vocab.txt"
    summary = run(glob, output, "--vocabulary_size=90", "--character_coverage=1.0")
    tokens = load_vocabulary(output).tokens
    assert tokens[:5] == SPECIAL_TOKENS
    assert summary["vocabulary_size"] == len(tokens) == 90
    assert (summary["documents_read"], summary["documents_rejected"], summary["unk_rate"]) == (len(texts), 0, 0.0)
    words = words_of(texts)
    assert (summary["words"], summary["distinct_words"]) == (len(words), len(set(words)))
    assert (summary["alphabet"], summary["character_coverage"]) == (len(set("".join(words))), 1.0)
    assert 1.0 < summary["fertility"] < 3.0
    continuing = sum(token.startswith("##") for token in tokens[5:])
    assert summary["continuation_share"] == round(continuing / 85, 4)
    assert [path.name for path in output.parent.iterdir()] == ["vocab.txt"]
    shown = capsys.readouterr().err
    assert f"{summary['alphabet']} characters cover 100.0000%" in shown
    assert f"{summary['fertility']:.3f} pieces per word, 0.0000% of words are [UNK]" in shown


@pytest.mark.parametrize("mode", ["in_memory", pytest.param("multi_processing", marks=pytest.mark.slow)])
def test_order_and_workers_do_not_matter(tmp_path: Path, glob: str, texts: list[str], mode: str) -> None:
    shuffled = list(texts)
    random.Random(1).shuffle(shuffled)
    other = write_corpus(tmp_path / "shuffled", shuffled, files=2)
    run(glob, tmp_path / "one.txt", "--vocabulary_size=90")
    run(other, tmp_path / "other.txt", "--vocabulary_size=90", f"--direct_running_mode={mode}")
    assert (tmp_path / "one.txt").read_bytes() == (tmp_path / "other.txt").read_bytes()


def test_training_is_deterministic_across_processes() -> None:
    """The trainer numbers characters by a hash table that differs by process."""
    found = {
        subprocess.run([sys.executable, "-c", LEARN, str(n)], capture_output=True, text=True, check=True).stdout
        for n in range(3)
    }
    assert len(found) == 1
    assert len(found.pop().split()) == 300


def test_frequent_words_become_pieces_except_those_with_unknown_characters() -> None:
    counts = Counter({"hello": 100, "help": 50, "z": 3, "né": 1, "zz": 7})
    alphabet = ("h", "z", "##e", "##l", "##o", "##p")
    tokens = learn(counts, 30, alphabet).tokens
    assert tokens[:11] == (*SPECIAL_TOKENS, *alphabet)
    assert {"hello", "help"} <= set(tokens)
    assert not {"zz", "né", "n"} & set(tokens)


def test_the_first_pieces_are_the_smaller_vocabulary() -> None:
    chooser = random.Random(4)
    words = ["".join(chooser.choices("abcdefgh", k=chooser.randint(2, 9))) for _ in range(3000)]
    counts, alphabet = Counter(words), [*"abcdefgh", *(f"##{letter}" for letter in "abcdefgh")]
    large = learn(counts, 400, alphabet).tokens
    for size in (60, 200):
        assert learn(counts, size, alphabet).tokens == large[:size]


def test_the_size_follows_from_the_corpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """2,000 words occur 120 times each, and 6,000 twice."""
    chooser = random.Random(5)
    words = ["".join(chooser.choices("abcdefghijklmnop", k=7)) for _ in range(8000)]
    texts = [" ".join(words[:2000]) for _ in range(120)] + [" ".join(words[2000:]) for _ in range(2)]
    glob = write_corpus(tmp_path / "corpus", texts, files=2)
    fixed = run(glob, tmp_path / "fixed.txt", "--vocabulary_size=9000")
    advised = re.search(r"`--vocabulary_size (\d+)` or more text", capsys.readouterr().err)
    summary = run(glob, tmp_path / "auto.txt", "--vocabulary_size=auto")
    assert summary["rare_share"] <= 0.05 < fixed["rare_share"]
    assert advised and int(advised[1]) == summary["vocabulary_size"] in (1000, 2000, 4000)
    tokens = load_vocabulary(tmp_path / "fixed.txt").tokens
    assert load_vocabulary(tmp_path / "auto.txt").tokens == tokens[: summary["vocabulary_size"]]


def test_weights_equal_repeated_inputs(tmp_path: Path, texts: list[str]) -> None:
    one = write_corpus(tmp_path / "one", texts[:50], files=2)
    other = write_corpus(tmp_path / "other", texts[50:], files=1)
    three = ",".join(write_corpus(tmp_path / f"copy-{number}", texts[50:], files=1) for number in range(3))
    weighted = run(f"{one},{other}", tmp_path / "weighted.txt", "--vocabulary_size=90", "--weights=1,3")
    copied = run(f"{one},{three}", tmp_path / "copied.txt", "--vocabulary_size=90")
    run(f"{one},{other}", tmp_path / "plain.txt", "--vocabulary_size=90")
    assert (tmp_path / "weighted.txt").read_bytes() == (tmp_path / "copied.txt").read_bytes()
    assert (tmp_path / "weighted.txt").read_bytes() != (tmp_path / "plain.txt").read_bytes()
    assert (weighted["fertility"], weighted["unk_rate"]) == (copied["fertility"], copied["unk_rate"])
    assert (weighted["words"], weighted["words"] < copied["words"]) == (len(words_of(texts)), True)


def test_fractional_weights(tmp_path: Path, texts: list[str]) -> None:
    glob = write_corpus(tmp_path / "one", texts, files=2)
    other = write_corpus(tmp_path / "other", ["Zyx zyx zyx zyx."], files=1)
    found = {}
    for weight in ("0.25", "0.5"):
        flags = ("--vocabulary_size=1000", f"--weights=1,{weight}", "--min_count=2", "--character_coverage=1.0")
        run(f"{glob},{other}", tmp_path / "vocab.txt", *flags)
        found[weight] = "zyx" in load_vocabulary(tmp_path / "vocab.txt").tokens
    # Four occurrences with a weight of 1/4 count as one, which is less than --min_count.
    assert found == {"0.25": False, "0.5": True}


def test_min_count_and_max_words(
    tmp_path: Path, glob: str, texts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    # Every text begins with a unique number, the only word that occurs once.
    summary = run(glob, tmp_path / "vocab.txt", "--vocabulary_size=1000", "--min_count=3", "--max_words=20")
    counts = Counter(words_of(texts))
    ranked = sorted(counts, key=lambda word: (-counts[word], word.encode()))
    most = [word for word in ranked if counts[word] >= 3][:20]
    share = sum(counts[word] for word in most) / sum(counts.values())
    tokens = load_vocabulary(tmp_path / "vocab.txt").tokens
    assert f"learning from the 20 most frequent ({share:.2%} of all)" in capsys.readouterr().err
    whole = {token for token in tokens if token.isalpha() and len(token) > 3}
    assert whole <= set(most)
    assert len(whole) > 15
    assert summary["distinct_words"] == len(counts)
    with pytest.raises(PipelineError, match=r"no word that occurs --min_count 100000 times \(200 documents"):
        run(glob, tmp_path / "none.txt", "--vocabulary_size=90", "--min_count=100000")
    assert [path.name for path in tmp_path.iterdir()] == ["vocab.txt"]


def test_chinese(tmp_path: Path, shared_data: Path) -> None:
    articles = json.loads((shared_data / "finetune/squad/xquad.zh.json").read_text(encoding="utf-8"))["data"]
    texts = [paragraph["context"] + "\n" for article in articles for paragraph in article["paragraphs"]]
    glob = write_corpus(tmp_path / "corpus", texts)
    found = {
        coverage: run(glob, tmp_path / "vocab.txt", "--vocabulary_size=6000", f"--character_coverage={coverage}")
        for coverage in (0.99, 0.9995, 1.0)
    }
    alphabets = [summary["alphabet"] for summary in found.values()]
    assert alphabets == sorted(set(alphabets))
    assert 1500 < alphabets[0] < alphabets[2] < 2200
    for coverage, summary in found.items():
        assert coverage <= summary["character_coverage"] < coverage + 1e-4
        # Nearly every word is one character here.
        assert abs(summary["unk_rate"] - (1 - coverage)) < 0.1 * (1 - coverage) + 1e-9
    with pytest.raises(ConfigError, match=r"at least \d{4} to hold .* lower --character_coverage"):
        run(glob, tmp_path / "vocab.txt", "--vocabulary_size=1000")


def test_small_corpus_gives_fewer_pieces(tmp_path: Path, glob: str, capsys: pytest.CaptureFixture[str]) -> None:
    summary = run(glob, tmp_path / "vocab.txt", "--vocabulary_size=100000")
    assert 60 < summary["vocabulary_size"] < 1000
    assert f"{summary['vocabulary_size']} pieces, not 100000" in capsys.readouterr().err


def test_cased_keeps_capitals(tmp_path: Path, glob: str) -> None:
    run(glob, tmp_path / "vocab.txt", "--vocabulary_size=120", "--cased")
    assert any(token[:1].isupper() for token in load_vocabulary(tmp_path / "vocab.txt").tokens)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--vocabulary_size=20"], "must be at least [0-9]+ to hold"),
        (["--vocabulary_size=5"], "must be more than 5"),
        ([], "--vocabulary_size is required"),
        (["--vocabulary_size=90", "--min_count=0"], "--min_count"),
        (["--vocabulary_size=90", "--max_words=0"], "--max_words"),
        (["--vocabulary_size=90", "--limit_alphabet=-1"], "--limit_alphabet"),
        (["--vocabulary_size=90", "--character_coverage=0"], r"--character_coverage must be in \(0, 1\]"),
        (["--vocabulary_size=90", "--character_coverage=99.95"], r"--character_coverage must be in \(0, 1\]"),
        (["--vocabulary_size=90", "--near_duplicates=0.8"], "--near_duplicates"),
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

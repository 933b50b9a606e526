"""The whole pipeline on a small corpus: reproducible bytes, no lost documents, no repeated work."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import random
from pathlib import Path

import pytest

from beam_pipelines import create_pretraining_data
from beam_pipelines.errors import PipelineError
from beam_pipelines.transforms.rejections import Tally
from bert_tf.config import ConfigError
from bert_tf.data.manifest import open_data, read_manifest
from bert_tf.data.schema import DATA_ALGORITHM_VERSION, VERIFIED_NAME
from bert_tf.data.tfrecord.shards import read_shard
from bert_tf.data.verification import verify_data
from bert_tf.text.vocabulary import load_vocabulary
from tests.support.beam_pipelines.samples import contents, documents, write_corpus, write_vocabulary

FLAGS = ["--num_shards=3", "--max_seq_length=32", "--max_predictions_per_seq=5", "--validation_fraction=0.1"]


def run(glob: str, vocabulary: Path, output: Path, *flags: str) -> dict:
    argv = [f"--input={glob}", f"--vocabulary={vocabulary}", f"--output={output}", *FLAGS, *flags]
    return create_pretraining_data.run(argv)


def shards_of(directory: Path) -> dict[str, str]:
    return {name: sha256 for name, sha256 in contents(directory).items() if name.endswith("tfrecord")}


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return documents(300)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("beam")


@pytest.fixture(scope="module")
def glob(home: Path, texts: list[str]) -> str:
    return write_corpus(home / "corpus", texts)


@pytest.fixture(scope="module")
def vocabulary(home: Path) -> Path:
    return write_vocabulary(home / "vocab.txt")


@pytest.fixture(scope="module")
def reference(home: Path, glob: str, vocabulary: Path) -> tuple[Path, dict]:
    return home / "reference", run(glob, vocabulary, home / "reference")


@pytest.mark.smoke
def test_data_directory_matches_its_manifest(reference: tuple[Path, dict], texts: list[str]) -> None:
    directory, summary = reference
    manifest, _ = open_data(directory, checksums=True)
    assert {path.name for path in directory.iterdir()} == {
        "manifest.json", "report.html", "run.json", "vocab.txt", "validation-00000-of-00001.tfrecord",
        *(f"train-0000{index}-of-00003.tfrecord" for index in range(3)),
    }  # fmt: skip
    assert summary["documents_read"] == manifest.counts["documents"] == len(texts)
    assert (summary["documents_rejected"], summary["shards"]) == (0, 4)
    assert summary["examples"] == manifest.counts["examples"] == sum(map(manifest.examples, ("train", "validation")))
    assert summary["examples"] == sum(1 for path in directory.glob("*.tfrecord") for _ in read_shard(path))
    assert sum(manifest.label_histogram.values()) == summary["examples"]
    assert summary["tokens"] == manifest.counts["tokens"] > 10 * len(texts)
    assert manifest.config.num_shards == 3
    assert 0.3 < manifest.fill <= 1.0
    assert manifest.unk_rate == 0.0
    held_out = manifest.examples("validation") / summary["examples"]
    assert 0.04 < held_out < 0.2


@pytest.mark.smoke
def test_the_bytes_of_an_algorithm_version_are_frozen(reference: tuple[Path, dict]) -> None:
    """If a change of the algorithms fails this test, raise DATA_ALGORITHM_VERSION and update the checksum."""
    checksum = hashlib.sha256(json.dumps(shards_of(reference[0]), sort_keys=True).encode()).hexdigest()
    assert {DATA_ALGORITHM_VERSION: checksum} == {1: "0c646e3123f39f0b7c22fa369adaeac829f7a8d1bb84938f99bfaf3d2020e12f"}


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_worker_processes_give_the_same_bytes(
    home: Path, glob: str, vocabulary: Path, reference: tuple[Path, dict], workers: int
) -> None:
    output = home / f"workers-{workers}"
    flags = ["--direct_running_mode=multi_processing", f"--direct_num_workers={workers}"]
    summary = run(glob, vocabulary, output, *flags)
    assert contents(output) == contents(reference[0])
    assert summary | {"seconds": 0, "output": ""} == reference[1] | {"seconds": 0, "output": ""}


def test_another_order_of_the_documents_gives_the_same_bytes(
    home: Path, vocabulary: Path, texts: list[str], reference: tuple[Path, dict]
) -> None:
    shuffled = list(texts)
    random.Random(5).shuffle(shuffled)
    run(write_corpus(home / "shuffled", shuffled, files=2), vocabulary, home / "shuffled-data")
    assert shards_of(home / "shuffled-data") == shards_of(reference[0])
    manifests = [dataclasses.asdict(read_manifest(path)) for path in (home / "shuffled-data", reference[0])]
    for manifest in manifests:
        (source,) = manifest["sources"]
        source.update(input="", files=0, bytes=0)
    assert manifests[0] == manifests[1]


def test_another_seed_gives_other_bytes(home: Path, glob: str, vocabulary: Path, reference: tuple[Path, dict]) -> None:
    run(glob, vocabulary, home / "seed", "--seed=1")
    assert set(contents(home / "seed").values()).isdisjoint(
        sha256 for name, sha256 in contents(reference[0]).items() if name != "vocab.txt"
    )


def test_static_copies(home: Path, glob: str, vocabulary: Path, reference: tuple[Path, dict]) -> None:
    summary = run(glob, vocabulary, home / "static", "--masking=static", "--dupe_factor=2")
    assert 1.8 < summary["examples"] / reference[1]["examples"] < 2.2
    assert summary["tokens"] == reference[1]["tokens"]
    open_data(home / "static", load_vocabulary(vocabulary), checksums=True)


@pytest.mark.smoke
def test_finished_directory_is_not_changed(glob: str, vocabulary: Path, reference: tuple[Path, dict]) -> None:
    before = {path: path.stat().st_mtime_ns for path in reference[0].glob("*.tfrecord")}
    verify_data(reference[0], read_manifest(reference[0]))
    summary = run(glob, vocabulary, reference[0])
    (reference[0] / VERIFIED_NAME).unlink()
    assert summary | {"seconds": 0} == reference[1] | {"seconds": 0}
    assert before == {path: path.stat().st_mtime_ns for path in reference[0].glob("*.tfrecord")}


def test_only_missing_or_damaged_shards_are_rebuilt(
    home: Path, glob: str, vocabulary: Path, reference: tuple[Path, dict], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = home / "resumed"

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(create_pretraining_data, "_finish", fail)
        with pytest.raises(KeyboardInterrupt):
            run(glob, vocabulary, output)
    kept, damaged, lost = sorted(output.glob("train-*.tfrecord"))
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    lost.unlink()
    (output / ".train-00000-of-00003.tfrecord.0123456789ab.tmp").write_bytes(b"half")
    before = kept.stat().st_mtime_ns
    run(glob, vocabulary, output)
    assert kept.stat().st_mtime_ns == before
    assert contents(output) == contents(reference[0])


@pytest.mark.parametrize("flag", ["--seed=2", "--max_seq_length=31", "--num_shards=2", "--language=none"])
def test_a_directory_of_another_run_is_refused(
    glob: str, vocabulary: Path, reference: tuple[Path, dict], flag: str
) -> None:
    with pytest.raises(ConfigError, match="another run|other files"):
        run(glob, vocabulary, reference[0], flag)


def test_casing_comes_from_the_vocabulary(
    tmp_path: Path, glob: str, vocabulary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capital = tmp_path / "cased.txt"
    capital.write_text(vocabulary.read_text(encoding="utf-8") + "Kaba\n", encoding="utf-8")
    assert run(glob, capital, tmp_path / "data")["examples"]
    assert not read_manifest(tmp_path / "data").config.lowercase
    assert "'Kaba'" in capsys.readouterr().err
    with pytest.raises(ConfigError, match=r"--cased .*vocab\.txt"):
        run(glob, vocabulary, tmp_path / "refused", "--cased")
    assert not (tmp_path / "refused").exists()


def test_directory_with_other_files_is_refused(home: Path, glob: str, vocabulary: Path) -> None:
    output = home / "foreign"
    output.mkdir()
    (output / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match=r"other files \(thesis.tex\)"):
        run(glob, vocabulary, output)
    assert [path.name for path in output.iterdir()] == ["thesis.tex"]


def test_an_output_that_is_a_file_is_refused(glob: str, vocabulary: Path) -> None:
    with pytest.raises(ConfigError, match="is a file"):
        run(glob, vocabulary, vocabulary)


def test_duplicates_are_dropped_and_counted(
    home: Path, vocabulary: Path, texts: list[str], reference: tuple[Path, dict]
) -> None:
    glob = write_corpus(home / "doubled", [*texts, *texts[:40]])
    summary = run(glob, vocabulary, home / "doubled-data", "--max_rejected_fraction=0")
    manifest = read_manifest(home / "doubled-data")
    assert manifest.rejected == {"duplicate": 40}
    assert (summary["documents_read"], summary["documents_rejected"]) == (340, 40)
    assert shards_of(home / "doubled-data") == shards_of(reference[0])


def test_rejected_documents_become_dead_letters(home: Path, vocabulary: Path, texts: list[str]) -> None:
    odd = ["\u200b\n", "word " * 2000 + "\n"]
    glob = write_corpus(home / "odd", [*texts, *odd], files=1)
    summary = run(glob, vocabulary, home / "odd-data", "--max_document_bytes=5000")
    assert summary["documents_rejected"] == 2
    assert read_manifest(home / "odd-data").rejected == {"empty": 1, "over_long": 1}
    letters = [json.loads(line) for line in (home / "odd-data" / "dead_letters.jsonl").read_text().splitlines()]
    assert {letter["reason"] for letter in letters} == {"empty", "over_long"}
    lines = Path(letters[0]["file"]).read_text(encoding="utf-8").split("\n")
    for letter in letters:
        number = int(letter["place"].removeprefix("line "))
        assert lines[number - 1].startswith(letter["excerpt"][:50].strip())


def test_too_many_rejected_documents_end_the_run(home: Path, glob: str, vocabulary: Path) -> None:
    output = home / "ceiling"
    with pytest.raises(
        PipelineError, match=r"of 300 documents were rejected \(over_long \d+\).*dead_letters.*part-\d.txt, line \d+"
    ):
        run(glob, vocabulary, output, "--max_document_bytes=100")
    assert not (output / "manifest.json").exists()
    assert (output / "dead_letters.jsonl").stat().st_size > 0
    assert not list(output.glob("*.tfrecord")), "no shard is built once the documents are counted"


def test_lost_records_end_the_run(home: Path, glob: str, vocabulary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tally, "read", lambda self, source=None: 301)
    with pytest.raises(PipelineError, match="301 documents were read, 300 are in shards"):
        run(glob, vocabulary, home / "lost")
    assert not (home / "lost" / "manifest.json").exists()


def test_several_lengths_in_one_run_equal_separate_runs(home: Path, glob: str, vocabulary: Path) -> None:
    both, masks = home / "both", ["--masking=static", "--max_predictions_per_seq=5,10"]
    summary = run(glob, vocabulary, both, "--max_seq_length=32,64", *masks)
    assert {path.name for path in both.iterdir()} == {"run.json", "length-32", "length-64"}
    apart = [
        run(glob, vocabulary, home / f"alone-{length}", f"--max_seq_length={length}", "--masking=static",
            f"--max_predictions_per_seq={predictions}")
        for length, predictions in ((32, 5), (64, 10))
    ]  # fmt: skip
    for length in (32, 64):
        assert contents(both / f"length-{length}") == contents(home / f"alone-{length}")
        open_data(both / f"length-{length}", checksums=True)
    assert summary["examples"] == sum(one["examples"] for one in apart)
    assert (summary["shards"], summary["tokens"]) == (8, apart[0]["tokens"])
    again = run(glob, vocabulary, both, "--max_seq_length=32,64", *masks)
    assert again | {"seconds": 0} == summary | {"seconds": 0}


def test_run_of_several_lengths_resumes(home: Path, glob: str, vocabulary: Path) -> None:
    both, resumed = home / "both", home / "both-resumed"
    flags = ["--max_seq_length=32,64", "--masking=static", "--max_predictions_per_seq=5,10"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(create_pretraining_data, "_finish", lambda run: exec("raise KeyboardInterrupt"))
        with pytest.raises(KeyboardInterrupt):
            run(glob, vocabulary, resumed, *flags)
    damaged, kept, _ = sorted((resumed / "length-64").glob("train-*.tfrecord"))
    damaged.write_bytes(b"half")
    before = kept.stat().st_mtime_ns
    run(glob, vocabulary, resumed, *flags)
    assert kept.stat().st_mtime_ns == before
    for length in (32, 64):
        assert contents(both / f"length-{length}") == contents(resumed / f"length-{length}")


def test_several_inputs_are_counted_separately(home: Path, vocabulary: Path, texts: list[str]) -> None:
    first, second = write_corpus(home / "first", texts[:200]), write_corpus(home / "second", texts[150:])
    inputs = f"{first},{second}"
    summary = run(inputs, vocabulary, home / "two-inputs", "--weights=1,3", "--language=en,none", "--no_nsp")
    manifest, _ = open_data(home / "two-inputs", checksums=True)
    one, two = manifest.sources
    assert (one.input, two.input, one.weight, two.weight, two.language) == (first, second, 1.0, 3.0, "none")
    assert (one.documents_read, one.documents, one.left_out) == (200, 200, {})
    assert (two.documents_read, two.documents, two.left_out) == (150, 100, {"duplicate": 50})
    assert one.tokens + two.tokens == summary["tokens"]
    assert manifest.label_histogram == {}
    # Three passes over two thirds as many tokens as one pass.
    assert manifest.counts["example_tokens"] > 1.8 * summary["tokens"]


def test_a_corpus_of_one_document(home: Path, vocabulary: Path, texts: list[str]) -> None:
    glob = write_corpus(home / "one", texts[:1], files=1)
    summary = run(glob, vocabulary, home / "one-data", "--validation_fraction=0")
    assert (summary["documents_read"], summary["shards"]) == (1, 1)
    manifest, _ = open_data(home / "one-data", checksums=True)
    assert manifest.label_histogram == {"next": summary["examples"], "random": 0}


def test_python_docs(home: Path, vocabulary: Path) -> None:
    summary = create_pretraining_data.run(
        [
            "--format=python_docs",
            "--input=json,logging",
            f"--vocabulary={vocabulary}",
            f"--output={home / 'docs'}",
            "--max_seq_length=32",
        ]
    )
    assert summary["documents_read"] > 5
    assert summary["examples"] > 5

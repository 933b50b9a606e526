"""The whole path on object stores, each command in a new process, ends with the bytes and weights of local runs."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import fsspec
import pytest

from bert_tf.cli import main
from bert_tf.data.schema import VERIFIED_NAME
from bert_tf.storage import Store, StoreError
from bert_tf.storage.leases import Lease
from bert_tf.training.loop.checkpoints import CheckpointStore
from tests.support.serving.server_process import running

# The installed command.
PROGRAM = Path(sys.executable).with_name("bert-tf")
SETTINGS = ["training.batch_size=8", "training.checkpoint_every=2", "training.log_every=2", "training.evaluate_every=0"]
MODEL = {"hidden_dim": 16, "num_layers": 1, "num_heads": 2, "intermediate_dim": 32, "max_sequence_length": 32}


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the inputs of the path (`raw`, `model.json`, `texts.tsv`), `vocab.txt` and `data`."""
    folder, chooser = tmp_path_factory.mktemp("local"), random.Random(1)
    words = [f"w{letter}{other}" for letter in "abcdefgh" for other in "abcd"]
    (folder / "raw").mkdir()
    for number in range(2):
        documents = [" ".join(chooser.choices(words, k=9)) + ".\n" for _ in range(60)]
        (folder / f"raw/{number}.txt").write_text("\n".join(documents[at] * 2 for at in range(60)))
    lines = [f"{words[number]} {words[number + 1]}\t{'ab'[number % 2]}" for number in range(12)]
    (folder / "texts.tsv").write_text("\n".join(["text\tlabel", *lines, ""]))
    (folder / "model.json").write_text(json.dumps(MODEL))
    assert main(vocabulary(str(folder))) == 0
    assert main(data(str(folder))) == 0
    return folder


@pytest.fixture(scope="module")
def weights(local: Path) -> str:
    """SHA-256 of the weights of the local run."""
    output = local / "run"
    assert main(pretraining(str(local))) == 0
    from bert_tf.models import load_preset
    from bert_tf.training.fit import weights_sha256

    return weights_sha256(load_preset(output).model)


def vocabulary(base: str) -> list[str]:
    return ["vocab", "--input", f"{base}/raw/*.txt", "--vocabulary_size", "60", "--output", f"{base}/vocab.txt"]


def data(base: str) -> list[str]:
    paths = ["--input", f"{base}/raw/*.txt", "--vocabulary", f"{base}/vocab.txt", "--output", f"{base}/data"]
    return ["data", *paths, "--max_seq_length", "32", "--max_predictions_per_seq", "5", "--num_shards", "2"]


def pretraining(base: str) -> list[str]:
    paths = ["--data", f"{base}/data", "--model", f"{base}/model.json", "--output", f"{base}/run"]
    return ["pretrain", *paths, "--steps", "4", "--set", *SETTINGS]


def upload_inputs(folder: Path, url: str) -> None:
    for path in (*(folder / "raw").iterdir(), folder / "model.json", folder / "texts.tsv"):
        Store(url).upload(path, path.relative_to(folder).as_posix())


def run(command: list[str]) -> dict:
    """Returns the summary of a command in a new process, which must not show the secret of the environment."""
    environment = os.environ | {"AWS_SECRET_ACCESS_KEY": "a hidden key", "TF_CPP_MIN_LOG_LEVEL": "3"}
    ended = subprocess.run([str(PROGRAM), *command], capture_output=True, text=True, env=environment, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert "a hidden key" not in ended.stdout + ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


def summary(capsys: pytest.CaptureFixture[str], command: list[str]) -> dict:
    capsys.readouterr()
    assert main(command) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def build_data(url: str, local: Path, *flags: str) -> None:
    """Runs `vocab` and `data` on a store; vocabulary and shards must be those of `local`."""
    upload_inputs(local, url)
    run(vocabulary(url))
    run([*data(url), *flags])
    files = {"vocab.txt": Store(url).read("vocab.txt")}
    files |= {f"data/{name}": Store(f"{url}/data").read(name) for name in Store(f"{url}/data").files()}
    here = {f"data/{path.name}" for path in (local / "data").iterdir() if path.name != VERIFIED_NAME}
    assert set(files) == {"vocab.txt", *here}
    same = [name for name in files if name.endswith((".tfrecord", "vocab.txt"))]
    assert len(same) == 5, "two shards for training, one for validation, and two copies of the vocabulary"
    assert {name: files[name] for name in same} == {name: (local / name).read_bytes() for name in same}
    assert not [name for name, content in files.items() if b"a hidden key" in (content or b"")]


@pytest.mark.parametrize(("scheme", "flags"), [("s3", ["--direct_num_workers=2"]), ("gcs", [])])
def test_from_raw_text_to_a_served_model(
    scheme: str, flags: list[str], local: Path, weights: str, request: pytest.FixtureRequest
) -> None:
    url = f"{request.getfixturevalue(scheme)}/whole"
    build_data(url, local, *flags)
    inputs = Store(f"{url}/raw/*.txt").matches()
    assert list(inputs) == [f"{url}/raw/0.txt", f"{url}/raw/1.txt"]
    assert all(abs(file.modified - time.time()) < 3600 for file in inputs.values()), "a changed input is noticed"
    pretrained = run(pretraining(url))
    assert pretrained["weights_sha256"] == weights
    assert (pretrained["output"], pretrained["preset"]) == (f"{url}/run", f"{url}/run/preset")
    files = Store(f"{url}/run").files()
    assert {"preset/config.json", "checkpoints/step-00000004/state.json", "report.html"} <= set(files)
    evaluated = run(["evaluate", "--preset", f"{url}/run", "--data", f"{url}/data"])
    assert evaluated["mlm_loss"] == pytest.approx(pretrained["mlm_loss"])
    inspected = run(["inspect", f"{url}/data"])
    assert inspected["kind"] == "pre-training data, the checksums of the shards read match"
    tuned = run(
        ["finetune", "classify", "--preset", f"{url}/run", "--train", f"{url}/texts.tsv", "--dev", f"{url}/texts.tsv"]
        + ["--output", f"{url}/tuned", "--set", "training.epochs=1", "training.batch_size=4"],
    )
    assert tuned["preset"] == f"{url}/tuned/preset"
    run(["predict", "--preset", f"{url}/tuned", "--input", f"{url}/texts.tsv", "--output", f"{url}/answers.jsonl"])
    answers = [json.loads(line) for line in (Store(url).read("answers.jsonl") or b"").splitlines()]
    assert len(answers) == 12
    # An earlier version, whose files the exporting machine does not need.
    Store(f"{url}/models/texts").write("1/saved_model.pb", b"an earlier version")
    exported = run(["export", "--preset", f"{url}/tuned", "--output", f"{url}/models/texts"])
    assert exported["output"] == f"{url}/models/texts/2"
    with running("--model", f"{url}/models/texts") as server:
        body = json.dumps({"instances": [answers[0]["text"]]}).encode()
        with urllib.request.urlopen(f"{server.url}/v1/models/texts:predict", body, timeout=60) as response:
            (prediction,) = json.load(response)["predictions"]
    assert prediction["label"] == answers[0]["label"]


def test_a_run_is_resumed_on_another_machine(
    s3: str,
    local: Path,
    weights: str,
    machine: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = f"{s3}/resumed"
    upload_inputs(local, url)
    for path in (local / "data").iterdir():
        Store(url).upload(path, f"data/{path.name}")
    save = CheckpointStore.save

    def interrupted_save(self, step, progress):
        save(self, step, progress)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(CheckpointStore, "save", interrupted_save)
        assert main(pretraining(url)) == 130
    assert "checkpoints/step-00000002/state.json" in Store(f"{url}/run").files()
    machine("second")
    assert summary(capsys, pretraining(url))["weights_sha256"] == weights


@pytest.mark.parametrize("scheme", ["s3", "gcs"])
def test_a_lease_is_taken_over_by_one_writer(scheme: str, request: pytest.FixtureRequest) -> None:
    store = Store(request.getfixturevalue(scheme))
    first = store.write(".lease", b"first", create=True)
    with pytest.raises(FileExistsError):
        store.write(".lease", b"second", create=True)
    second = store.write(".lease", b"second", replaces=first)
    assert store.info(".lease") == second
    with pytest.raises(FileExistsError):
        store.write(".lease", b"third", replaces=first)
    assert store.read(".lease") == b"second"
    lease = Lease(store, "run", "token")
    assert not lease.acquire() and lease._renew()
    lease.release()
    for name in (".lease", ".run.lease"):
        store.delete(name)


def test_faults_of_real_clients_are_named(
    s3: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", "--preset", "s3://nobody/run", "--data", f"{s3}/data"]) == 1
    assert "bucket 'nobody' does not exist" in capsys.readouterr().err
    assert main(["inspect", f"{s3}/nothing"]) == 1
    assert f"{s3}/nothing does not exist" in capsys.readouterr().err
    vocab = ["vocab", "--vocabulary_size", "60"]
    corpus = [*vocab, "--input", f"{s3}/raw/*.txt"]
    assert main([*vocab, "--input", "s3://nobody/*", "--output", "s3://nobody/v"]) == 1
    assert "bucket 'nobody' does not exist" in capsys.readouterr().err
    Store(s3).write("raw/0.txt", b"text")
    assert main([*corpus, "--output", "s3://nobody/v"]) == 1
    assert "bucket 'nobody' does not exist" in capsys.readouterr().err
    with pytest.raises(StoreError, match="bucket 'nobody' does not exist"):
        Store("s3://nobody").write("file", b"")
    with monkeypatch.context() as patch:
        # moto refuses keys of no account.
        patch.setattr("moto.settings.INITIAL_NO_AUTH_ACTION_COUNT", 0.0)
        assert main(["inspect", f"{s3}/data"]) == 1
        assert "no valid credentials (The AWS Access Key Id" in capsys.readouterr().err
    system = type(fsspec.filesystem("s3"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    system.clear_instance_cache()
    try:
        for command in (["inspect", f"{s3}/data"], [*corpus, "--output", f"{s3}/v"]):
            assert main(command) == 1
            assert "no valid credentials" in capsys.readouterr().err
    finally:
        system.clear_instance_cache()

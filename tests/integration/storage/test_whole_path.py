"""Runs whose data, output, presets and models are on an object store end with the weights of local runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import fsspec
import pytest

from bert_tf.cli import main
from bert_tf.storage import Store, StoreError
from bert_tf.storage.leases import Lease
from bert_tf.training.loop.checkpoints import CheckpointStore
from tests.support.training.data_directory import write_small_data

SETTINGS = ["training.batch_size=8", "training.checkpoint_every=2", "training.log_every=2", "training.evaluate_every=0"]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `data`, `model.json` and files of a classifier."""
    folder = tmp_path_factory.mktemp("local")
    write_small_data(folder)
    lines = [f"w{number} w{number + 1}\t{'ab'[number % 2]}" for number in range(12)]
    (folder / "texts.tsv").write_text("\n".join(["text\tlabel", *lines, ""]))
    return folder


@pytest.fixture(scope="module")
def weights(local: Path) -> str:
    """SHA-256 of the weights of the local run."""
    output = local / "run"
    assert main(pretraining(local, str(local / "data"), str(output))) == 0
    from bert_tf.models import load_preset
    from bert_tf.training.fit import weights_sha256

    return weights_sha256(load_preset(output).model)


def pretraining(local: Path, data: str, output: str) -> list[str]:
    paths = ["--data", data, "--model", str(local / "model.json"), "--output", output]
    return ["pretrain", *paths, "--steps", "4", "--set", *SETTINGS]


def upload(folder: Path, url: str) -> None:
    store = Store(url)
    for path in folder.rglob("*"):
        if path.is_file():
            store.upload(path, path.relative_to(folder).as_posix())


def summary(capsys: pytest.CaptureFixture[str], command: list[str]) -> dict:
    capsys.readouterr()
    assert main(command) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_from_data_to_a_served_model_on_s3(
    s3: str,
    local: Path,
    weights: str,
    machine: Callable[[str], None],
    quick_verification: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    upload(local / "data", f"{s3}/data")
    Store(s3).upload(local / "texts.tsv", "texts.tsv")
    command = pretraining(local, f"{s3}/data", f"{s3}/run")
    save = CheckpointStore.save

    def interrupted_save(self, step, progress):
        save(self, step, progress)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(CheckpointStore, "save", interrupted_save)
        assert main(command) == 130
    assert "checkpoints/step-00000002/state.json" in Store(f"{s3}/run").files()

    machine("second")
    pretrained = summary(capsys, command)
    assert pretrained["weights_sha256"] == weights
    assert (pretrained["output"], pretrained["preset"]) == (f"{s3}/run", f"{s3}/run/preset")

    machine("third")
    tuned = summary(
        capsys,
        ["finetune", "classify", "--preset", f"{s3}/run", "--train", f"{s3}/texts.tsv", "--dev", f"{s3}/texts.tsv"]
        + ["--output", f"{s3}/tuned", "--set", "training.epochs=1", "training.batch_size=4"],
    )
    assert tuned["preset"] == f"{s3}/tuned/preset"
    # An earlier version, whose files the exporting machine does not need.
    Store(f"{s3}/models/texts").write("1/saved_model.pb", b"an earlier version")
    exported = summary(capsys, ["export", "--preset", f"{s3}/tuned", "--output", f"{s3}/models/texts"])
    assert exported["output"] == f"{s3}/models/texts/2"

    machine("server")
    from bert_tf.serving.models.batching import BatchingOptions
    from bert_tf.serving.models.loaded_version import LoadedVersion
    from bert_tf.serving.models.manager import ModelManager
    from bert_tf.serving.models.versions import model_at

    manager = ModelManager(
        [model_at(f"{s3}/models/texts")], lambda name, folder: LoadedVersion(folder, BatchingOptions()), 0
    )
    with manager, manager.lease("texts") as served:
        assert (served.version, served.labels) == (2, ["a", "b"])


def test_pretraining_on_gcs(gcs: str, local: Path, weights: str, capsys: pytest.CaptureFixture[str]) -> None:
    upload(local / "data", f"{gcs}/data")
    assert summary(capsys, pretraining(local, f"{gcs}/data", f"{gcs}/run"))["weights_sha256"] == weights
    files = Store(f"{gcs}/run").files()
    assert {"preset/config.json", "checkpoints/step-00000004/state.json", "report.html"} <= set(files)


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
        assert main(["inspect", f"{s3}/data"]) == 1
        assert "no valid credentials" in capsys.readouterr().err
    finally:
        system.clear_instance_cache()

"""Versions on an object store: polled, fetched when they are loaded, and removed when they are not served any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from bert_tf.serving.models.version_source import check_has_version
from bert_tf.serving.models.versions import AVAILABLE, END, ServedModel
from bert_tf.storage import Store, stores
from tests.support.serving.fake_versions import Models
from tests.support.storage.faulty import CALLS, FAULTS, create_bucket


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The empty directory of a model."""
    monkeypatch.setenv("BERT_TF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(stores, "DELAYS", ())
    return Store(f"{create_bucket('bucket')}/models/m")


@pytest.fixture
def models(store: Store, tmp_path: Path) -> Models:
    """The manager of the model, with version 1."""
    store.write("1/saved_model.pb", b"good")
    models = Models(tmp_path)
    models.manager = models.manager_of(ServedModel("m", store.url))
    return models


def downloads() -> list[str]:
    return [path.partition("/models/m/")[2] for call, path in CALLS if call == "get_file"]


def test_new_versions_are_served_when_they_are_whole(store: Store, models: Models) -> None:
    with models.manager:
        assert (models.answers(), models.states()) == (1, {1: AVAILABLE})
        folder = models.loaded[1][0].folder
        store.write("2/assets/vocab.txt", b"[PAD]")
        models.manager.poll()
        assert models.answers() == 1
        store.write("2/saved_model.pb", b"good")
        models.manager.poll()
        models.manager.poll()
        assert (models.answers(), models.states()) == (2, {2: AVAILABLE})
        assert (models.loaded[2][0].folder / "assets/vocab.txt").read_bytes() == b"[PAD]"
        assert not folder.exists()
        assert sorted(downloads()) == ["1/saved_model.pb", "2/assets/vocab.txt", "2/saved_model.pb"]
        # The earlier version is fetched again.
        store.delete("2/saved_model.pb")
        models.manager.poll()
        assert models.answers() == 1


def test_a_store_that_does_not_answer_changes_nothing(store: Store, models: Models) -> None:
    with models.manager:
        FAULTS["find"] = [TimeoutError("no answer")]
        store.write("2/saved_model.pb", b"good")
        models.manager.poll()
        assert models.answers() == 1
        assert "no answer" in models.manager.status("m", 1)[0].error
        FAULTS["get_file"] = [TimeoutError("lost connection")]
        models.manager.poll()
        assert (models.answers(), models.states()) == (1, {2: END, 1: AVAILABLE})
        assert "lost connection" in models.manager.status("m", 2)[0].error
        models.now += 1.0
        models.manager.poll()
        assert (models.answers(), models.states()) == (2, {2: AVAILABLE})


def test_a_corrupt_version_falls_back_until_it_is_replaced(store: Store, tmp_path: Path) -> None:
    for version, content in ((1, b"good"), (2, b"corrupt")):
        store.write(f"{version}/saved_model.pb", content)
    models = Models(tmp_path)
    models.manager = models.manager_of(ServedModel("m", store.url))
    with models.manager:
        assert (models.answers(), models.states()) == (1, {2: END, 1: AVAILABLE})
        store.write("2/saved_model.pb", b"mended")
        models.now += 1.0
        models.manager.poll()
        assert models.answers() == 2


def test_a_url_without_versions_is_refused(store: Store) -> None:
    with pytest.raises(FileNotFoundError, match=f"{store.url} holds no exported model"):
        check_has_version(store.url)

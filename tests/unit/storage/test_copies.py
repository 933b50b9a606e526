"""Local copies of inputs: downloaded once, exchanged as a whole, without the parts that are not read."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from bert_tf.config import ConfigError
from bert_tf.storage import Store, input_path
from bert_tf.storage.copies import copy_path, remove_copy
from tests.support.storage.faulty import CALLS, FAULTS


def downloads() -> list[str]:
    return [path.rpartition("/")[2] for call, path in CALLS if call == "get_file"]


def test_only_changed_files_are_downloaded_again(bucket: str) -> None:
    store = Store(f"{bucket}/presets/small")
    store.write("config.json", b"{}")
    store.write("vocab.txt", b"[PAD]")
    copy = input_path(store.url)
    assert copy.name == "small"
    assert sorted(downloads()) == ["config.json", "vocab.txt"]
    assert input_path(f"{store.url}/") == copy
    assert len(downloads()) == 2
    store.write("config.json", b'{"a": 1}')
    store.delete("vocab.txt")
    store.write("extra.txt", b"x")
    assert {path.name: path.read_bytes() for path in input_path(store.url).iterdir()} == {
        "config.json": b'{"a": 1}',
        "extra.txt": b"x",
    }
    assert sorted(downloads()[2:]) == ["config.json", "extra.txt"]


def test_a_single_object_is_copied(bucket: str) -> None:
    Store(bucket).write("vocab.txt", b"[PAD]\n")
    assert input_path(f"{bucket}/vocab.txt").read_bytes() == b"[PAD]\n"


def test_a_checkpoint_is_copied_by_its_prefix(bucket: str) -> None:
    store = Store(f"{bucket}/google")
    for name in ("bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001", "bert_config.json"):
        store.write(name, name.encode())
    prefix = input_path(f"{store.url}/bert_model.ckpt")
    assert sorted(path.name for path in prefix.parent.glob("bert*")) == [
        "bert_model.ckpt.data-00000-of-00001",
        "bert_model.ckpt.index",
    ]


def test_a_preset_is_copied_without_the_checkpoints_of_its_run(bucket: str) -> None:
    store = Store(f"{bucket}/run")
    for name in ("preset/config.json", "checkpoints/step-00000001/state.json", "tensorboard/events", ".lease"):
        store.write(name, b"{}")
    copy = input_path(store.url, "preset")
    assert sorted(path.relative_to(copy).as_posix() for path in copy.rglob("*")) == [
        "checkpoints",
        "preset",
        "preset/config.json",
        "tensorboard",
    ]


def test_a_copy_is_removed_and_downloaded_again(bucket: str) -> None:
    store = Store(f"{bucket}/saved_models/cola/1")
    remove_copy(store.url)
    store.write("saved_model.pb", b"graph")
    for _ in range(2):
        assert input_path(store.url) == copy_path(store.url)
        assert (copy_path(store.url) / "saved_model.pb").read_bytes() == b"graph"
        remove_copy(store.url)
        assert not copy_path(store.url).exists()


def test_what_does_not_exist_is_named(bucket: str) -> None:
    with pytest.raises(FileNotFoundError, match=f"{bucket}/nothing"):
        input_path(f"{bucket}/nothing")


def test_a_failed_download_keeps_the_previous_copy(bucket: str) -> None:
    store = Store(f"{bucket}/preset")
    store.write("a", b"1")
    copy = input_path(store.url)
    store.write("a", b"22")
    FAULTS["get_file"] = [OSError(errno.ENOSPC, "No space left on device")]
    with pytest.raises(OSError, match="no space left"):
        input_path(store.url)
    assert (copy / "a").read_bytes() == b"1"
    assert (input_path(store.url) / "a").read_bytes() == b"22"


def test_a_url_that_is_a_path_is_refused() -> None:
    with pytest.raises(ConfigError, match="is a URL"):
        input_path(Path("gs://bucket/run"))

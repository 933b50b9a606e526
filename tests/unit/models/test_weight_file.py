"""Weight files: external storage and non-finite numbers are rejected."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from bert_tf import average_presets
from bert_tf.config import ConfigError
from bert_tf.conversion import Options
from bert_tf.conversion.formats.registry import read_checkpoint
from bert_tf.models import BertBackbone, BertBiLSTMEncoder, BertTextClassifier, load_preset, save_preset
from bert_tf.models.weights import read_array, stored_arrays
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.support.models.reference_bert import TINY
from tests.support.paths import REPOSITORY

NAME = "embeddings/position_embedding"
SHAPE = (TINY.max_sequence_length, TINY.hidden_dim)
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *(f"p{number}" for number in range(TINY.vocabulary_size - 5))))


def external(file: h5py.File, secret: Path) -> None:
    file.create_dataset(NAME, SHAPE, np.float32, external=[(str(secret), 0, h5py.h5f.UNLIMITED)])


def virtual(file: h5py.File, secret: Path) -> None:
    layout = h5py.VirtualLayout(SHAPE, np.float32)
    layout[:] = h5py.VirtualSource(str(secret), "x", SHAPE)
    file.create_virtual_dataset(NAME, layout)


def linked(file: h5py.File, secret: Path) -> None:
    file[NAME] = h5py.ExternalLink(str(secret), "x")


def linked_group(file: h5py.File, secret: Path) -> None:
    del file["embeddings"]
    file["embeddings"] = h5py.ExternalLink(str(secret), "/")


def soft(file: h5py.File, secret: Path) -> None:
    file["elsewhere"] = h5py.ExternalLink(str(secret), "/")
    file[NAME] = h5py.SoftLink("/elsewhere/x")


def unallocated(file: h5py.File, secret: Path) -> None:
    file.create_dataset(NAME, SHAPE, np.float32)


def partly_stored(file: h5py.File, secret: Path) -> None:
    file.create_dataset(NAME, SHAPE, np.float32, chunks=(1, SHAPE[1]))[0] = 1.0


HOSTILE = {
    external: "Received: storage in '.*secret.h5'",
    virtual: "Received: a virtual array",
    linked: "Received: a link to `x` in '.*secret.h5'",
    linked_group: "Received: a link to `/` in '.*secret.h5'",
    soft: "Received: a link to `/",
    unallocated: "must be stored completely",
    partly_stored: "must be stored completely",
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("weights") / "preset"
    save_preset(BertBackbone(TINY), directory, VOCABULARY, True)
    return directory


@pytest.fixture
def preset(source: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(source, tmp_path / "preset"))


def changed(preset: Path, change: Callable[[h5py.File, Path], None]) -> Path:
    """Returns the weight file of a preset after `change` has replaced the array `NAME`."""
    secret = preset.parent / "secret.h5"
    with h5py.File(secret, "w") as file:
        file["x"] = np.ones(SHAPE, np.float32)
    path = preset / "model.weights.h5"
    with h5py.File(path, "a") as file:
        del file[NAME]
        change(file, secret)
    return path


@pytest.mark.parametrize("change", HOSTILE)
def test_external_links_are_not_followed(change: Callable[[h5py.File, Path], None], preset: Path) -> None:
    path = changed(preset, change)
    for read in (stored_arrays, lambda path: read_array(path, NAME)):
        with pytest.raises(ConfigError, match=HOSTILE[change]) as error:
            read(path)
        assert str(path) in str(error.value)


@pytest.mark.parametrize("change", [external, linked])
def test_a_preset_that_names_other_files_is_refused(change: Callable[[h5py.File, Path], None], preset: Path) -> None:
    changed(preset, change)
    with pytest.raises(ConfigError, match=HOSTILE[change]):
        load_preset(preset)


def test_recursive_groups_are_read_once(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "w.h5", "w") as file:
        file["a/x"] = np.ones(2, np.float32)
        file["a/itself"] = file["a"]
    assert list(stored_arrays(tmp_path / "w.h5")) == ["a/x"]


def test_depth_of_groups_is_limited(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "w.h5", "w") as file:
        file.create_group("/".join("a" * 5000))
    with pytest.raises(ConfigError, match="nested at most 32 levels"):
        stored_arrays(tmp_path / "w.h5")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nonfinite_weights_are_named_and_refused(value: float, preset: Path) -> None:
    with h5py.File(preset / "model.weights.h5", "a") as file:
        table = file[NAME][()]
        table[1, 2] = value
        del file[NAME]
        file[NAME] = table
    with pytest.raises(ConfigError, match=rf"weight `{NAME}` must hold finite numbers. .* 1 of {table.size}"):
        load_preset(preset)


def test_nonfinite_weights_are_not_saved(tmp_path: Path) -> None:
    model = BertBackbone(TINY)
    model.get_layer("pooler").bias.assign(np.full(TINY.hidden_dim, np.nan))
    with pytest.raises(ConfigError, match="weight `pooler/bias` must hold finite numbers"):
        save_preset(model, tmp_path / "preset", VOCABULARY, True)
    assert not (tmp_path / "preset").exists()


def test_weights_are_float32(preset: Path) -> None:
    changed(preset, lambda file, secret: file.create_dataset(NAME, data=np.zeros(SHAPE)))
    with pytest.raises(ConfigError, match=f"`{NAME}` must be float32. Received: float64"):
        load_preset(preset)


@pytest.mark.parametrize(
    ("head", "bilstm", "encoder"),
    [
        ({}, {}, {"num_layers": 900, "intermediate_dim": 10**6}),
        ({}, {}, {"max_sequence_length": 10**8}),
        ({"num_classes": 10**9}, {}, {}),
        ({}, {"bilstm_dim": 10**5}, {}),
    ],
)
def test_oversized_configuration_is_refused_before_building(
    head: dict[str, int], bilstm: dict[str, int], encoder: dict[str, int], tmp_path: Path
) -> None:
    model = BertTextClassifier(BertBiLSTMEncoder(BertBackbone(TINY), 2), 2)
    save_preset(model, tmp_path / "preset", VOCABULARY, True)
    path = tmp_path / "preset" / "config.json"
    config = json.loads(path.read_text())
    below = config["model"]["config"]["backbone"]["config"]
    config["model"]["config"] |= head
    below |= bilstm
    below["backbone"]["config"]["config"] |= encoder
    path.write_text(json.dumps(config))
    with pytest.raises(ConfigError, match=r"model.weights.h5: .* at least \d+ numbers .*config.json"):
        load_preset(tmp_path / "preset")


def test_weights_that_another_program_changed_are_refused(preset: Path) -> None:
    with h5py.File(preset / "model.weights.h5", "a") as file:
        file[NAME][0, 0] += 1
    for read in (
        load_preset,
        lambda name: average_presets([name, name]),
        lambda name: read_checkpoint(name, "preset", Options()),
    ):
        with pytest.raises(ValueError, match=r"model.weights.h5: changed since .* remove `weights_sha256`"):
            read(preset)
    config = json.loads((preset / "config.json").read_text())
    (preset / "config.json").write_text(json.dumps(config | {"weights_sha256": ""}))
    load_preset(preset)
    assert average_presets([preset, preset]).kind == load_preset(preset).kind


def test_a_full_disk_leaves_no_preset(tmp_path: Path) -> None:
    program = f"""
import resource, sys
from bert_tf.models import BertBackbone, save_preset
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.support.models.reference_bert import TINY
from tests.support.paths import REPOSITORY
vocabulary = Vocabulary((*SPECIAL_TOKENS, *map(str, range(TINY.vocabulary_size - 5))))
for size in (0, 1000, 20_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    try:
        save_preset(BertBackbone(TINY), {str(tmp_path / "preset")!r}, vocabulary, True)
    except OSError as error:
        assert error.filename and error.strerror == "File too large", error
    else:
        sys.exit("saved")
"""
    # A child process, because HDF5 ended it at its exit.
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []

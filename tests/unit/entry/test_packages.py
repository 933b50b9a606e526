"""Extras install exactly what their commands need; errors name a missing package and its extra."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from bert_tf.cli import COMMANDS
from bert_tf.entry.packages import PACKAGES, missing_package
from tests.support.entry.only_extra import PROJECT, closure, normalized
from tests.support.paths import REPOSITORY, SUPPORT

EXTRAS = PROJECT["optional-dependencies"]
BASE = {"google_crc32c", "numpy", "shtab"}
# Third-party programs that `bert-tf convert` compares with if they are installed.
PEERS = {"official", "torch", "transformers"}

IMPORT = re.compile(r"^\s*(?:from (\w+)[\w.]* import\b|import (\w+))", re.MULTILINE)

# Without any extra.
ALONE = """
import sys
from tests.support.entry.only_extra import hide_others
hide_others(None)
import bert_tf.client
from bert_tf.cli import main
attention = ["attention", "--text", "a", "--output", "a.html", "--preset", sys.argv[2]]
for arguments in (["data"], ["demo"], ["serve", "--model", "."], attention):
    assert main(arguments) == 1
main(["--help"])
"""


def direct(requirements: list[str]) -> set[str]:
    return {normalized(Requirement(line).name) for line in requirements} - {"bert-tf"}


def test_serving_installs_neither_beam_nor_training() -> None:
    heavy = {"apache-beam", "keras-hub", "keras-nlp", "kagglehub", "jax", "scikit-learn", "tensorboard", "pyarrow"}
    if version("tensorflow") < "2.21":
        heavy.remove("tensorboard")  # TensorFlow 2.20 depends on it.
    assert not closure("serve") & heavy
    assert heavy - {"jax"} <= closure("all")
    assert closure("all") == closure("data") | closure("serve") | closure("train")
    assert closure(None) == {"google-crc32c", "numpy", "shtab"}


def test_every_command_names_an_extra() -> None:
    assert {command.extra for command in COMMANDS.values()} == {"all", "data", "serve", "train"} <= set(EXTRAS)


def test_command_line_names_missing_extras(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    command = [sys.executable, "-c", ALONE, str(SUPPORT / "entry"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    stderr = done.stderr.splitlines()
    assert stderr[0] == "bert-tf: error: `bert-tf data` needs apache-beam. Run `pip install 'bert-tf[data]'`."
    assert stderr[1] == "bert-tf: error: `bert-tf demo` needs apache-beam. Run `pip install 'bert-tf[all]'`."
    assert stderr[2].startswith("bert-tf: error: `bert-tf serve` needs ") and "bert-tf[serve]" in stderr[2]
    assert stderr[3].startswith("bert-tf: error: `bert-tf attention` needs ") and "bert-tf[train]" in stderr[3]
    assert len(stderr) == 4 and "usage: bert-tf" in done.stdout


@pytest.mark.parametrize(
    ("error", "extra"),
    [
        (ModuleNotFoundError("", name="apache_beam.runners"), "data"),
        (ModuleNotFoundError("", name="jax"), "jax"),
        # An installed package, a package of no extra, and an error other than an import error.
        (ModuleNotFoundError("", name="numpy.made_up"), None),
        (ModuleNotFoundError("", name="bert_tf.made_up"), None),
        (ModuleNotFoundError(), None),
        (ImportError("", name="apache_beam"), None),
    ],
)
def test_only_missing_packages_are_named(error: Exception, extra: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("apache_beam", "jax"):
        monkeypatch.setitem(sys.modules, name, None)
    message = missing_package(error, "data", "data")
    assert (message is None) if extra is None else (f"'bert-tf[{extra}]'" in str(message))


def test_extras_have_every_package_that_is_imported() -> None:
    # The packages import nothing of these extras but fsspec, whose absence `bert_tf.storage` reports.
    extras = EXTRAS.keys() - {"dev", "docs", "gcp", "gcs", "notebooks", "s3"}
    required = {name for extra in extras for name in direct(EXTRAS[extra])}
    assert set(PACKAGES.values()) == required
    imported = {
        module
        for package in ("bert_tf", "beam_pipelines")
        for file in (REPOSITORY / package).rglob("*.py")
        for names in IMPORT.findall(file.read_text(encoding="utf-8"))
        for module in names
        if module
    }
    imported -= {"bert_tf", "beam_pipelines", *sys.stdlib_module_names}
    assert imported - PEERS - BASE - {"fsspec"} == set(PACKAGES)

"""Dockerfiles of deployment: files, extras, versions and flags that they name exist. No image is built."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from bert_tf.cli import build_parser
from tests.support.entry.only_extra import PROJECT
from tests.support.paths import REPOSITORY

FOLDER = REPOSITORY / "deployment"
NAMES = ("Dockerfile", "serving.Dockerfile", "training.Dockerfile")
EXTRAS = PROJECT["optional-dependencies"]
Instructions = list[tuple[str, str]]


def instructions(name: str) -> Instructions:
    """Returns the instructions of a Dockerfile and their arguments, without comments and line continuations."""
    text = re.sub(r"^#.*\n", "", (FOLDER / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = [line for line in re.sub(r"\\\n\s*", "", text).splitlines() if line]
    return [(keyword, rest) for keyword, _, rest in (line.partition(" ") for line in lines)]


def stage(name: str, target: str) -> dict[str, str]:
    """Returns the last argument of each instruction of a stage."""
    found: dict[str, str] = {}
    current = ""
    for keyword, rest in instructions(name):
        if keyword == "FROM":
            current = rest.partition(" AS ")[2]
        if current == target:
            found[keyword] = rest
    return found


def defaults(name: str) -> dict[str, str]:
    return dict(rest.split("=") for keyword, rest in instructions(name) if keyword == "ARG" and "=" in rest)


@pytest.mark.parametrize("name", NAMES)
def test_copied_files_exist_and_python_is_supported(name: str) -> None:
    copies = [rest.split() for keyword, rest in instructions(name) if keyword == "COPY" and "--from" not in rest]
    sources = [source for *sources, _ in copies for source in sources]
    assert sources
    assert [source for source in sources if not list(REPOSITORY.glob(source))] == []
    assert f"Programming Language :: Python :: {defaults(name)['PYTHON']}" in PROJECT["classifiers"]


@pytest.mark.parametrize("name", NAMES)
def test_images_install_extras_with_the_tested_versions(name: str) -> None:
    (install,) = [rest for keyword, rest in instructions(name) if keyword == "RUN"]
    match = re.fullmatch(
        r"pip install --no-cache-dir --constraint constraints\.txt (['\"])\.\[(.+)\]\1 && pip check", install
    )
    assert match, install
    extras = match[2].replace("${VARIANT}", defaults(name).get("VARIANT", "")).split(",")
    assert set(extras) <= EXTRAS.keys()
    beam = defaults(name).get("BEAM", "")
    assert not beam or f"apache-beam=={beam}" in (REPOSITORY / "constraints.txt").read_text().splitlines()


def test_each_variant_of_training_is_an_extra_with_its_backend() -> None:
    stages = {rest.partition(" AS ")[2] for keyword, rest in instructions("training.Dockerfile") if keyword == "FROM"}
    variants = stages - {"", "base"}
    assert variants == {"cuda", "jax-cuda", "tpu"} <= EXTRAS.keys()
    for variant in variants:
        uses_jax = any("jax" in line for line in EXTRAS[variant])
        assert stage("training.Dockerfile", variant)["ENV"] == f"KERAS_BACKEND={'jax' if uses_jax else 'tensorflow'}"


def test_servers_run_with_the_flags_and_the_version_of_compose() -> None:
    compose = yaml.safe_load((REPOSITORY / "saved_models/compose.yaml").read_text(encoding="utf-8"))
    serving = compose["services"]["serving"]
    images = {target: stage("serving.Dockerfile", target) for target in ("tf_serving", "embedded")}
    assert images["tf_serving"]["FROM"].partition(" ")[0] == serving["image"]
    flags = json.loads(images["tf_serving"]["CMD"])
    assert {*flags} == {flag for flag in serving["command"] if "poll_wait" not in flag}
    assert json.loads(images["embedded"]["CMD"]) == flags
    program, *arguments = json.loads(images["embedded"]["ENTRYPOINT"])
    assert program == "bert-tf"
    build_parser().parse_args([*arguments, *flags])
    for image in images.values():
        assert image["COPY"] == "saved_models /models"
        assert image["USER"] == serving["user"]

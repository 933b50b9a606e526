"""requirements.lock has the versions of constraints.txt, each with its hashes."""

from __future__ import annotations

import re
from pathlib import Path

from packaging.utils import canonicalize_name

from tests.support.paths import REPOSITORY

PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s\\;]+)", re.MULTILINE)


def pinned(path: Path) -> dict[str, str]:
    return {canonicalize_name(name): version for name, version in PINNED.findall(path.read_text())}


def test_lock_has_the_versions_of_the_constraints() -> None:
    locked, constrained = pinned(REPOSITORY / "requirements.lock"), pinned(REPOSITORY / "constraints.txt")
    assert {"tensorflow", "keras", "apache-beam", "pytest"} <= locked.keys() <= constrained.keys()
    assert {name: version for name, version in locked.items() if constrained[name] != version} == {}


def test_every_locked_package_has_a_hash() -> None:
    text = (REPOSITORY / "requirements.lock").read_text()
    blocks = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    assert [block.splitlines()[0] for block in blocks if "--hash=sha256:" not in block] == []


def test_actions_are_pinned_by_commit() -> None:
    used = [
        line
        for path in (REPOSITORY / ".github" / "workflows").glob("*.yml")
        for line in re.findall(r"uses: (.*)", path.read_text())
    ]
    assert used and [line for line in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", line)] == []

"""Restricts a process to the packages of one extra, as in an environment that has no other packages."""

from __future__ import annotations

import sys
import tomllib
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from typing import Any

from packaging.requirements import Requirement

from tests.support.paths import REPOSITORY

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def normalized(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def closure(extra: str | None) -> set[str]:
    """Returns the packages that `pip install 'bert-tf[EXTRA]'` installs, `bert-tf` itself left out."""
    waiting = [Requirement(f"bert-tf[{extra or ''}]")]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        wanted = waiting.pop()
        key = normalized(wanted.name), frozenset(wanted.extras)
        if key not in seen:
            seen.add(key)
            waiting += _required(*key)
    return {name for name, _ in seen} - {"bert-tf"}


def _required(name: str, extras: frozenset[str]) -> list[Requirement]:
    if name == "bert-tf":
        # Read from the file, because the metadata of an editable install may be outdated.
        lines = [line for extra in extras for line in PROJECT["optional-dependencies"][extra]]
        return [Requirement(line) for line in [*PROJECT["dependencies"], *lines]]
    try:
        found = [Requirement(line) for line in requires(name) or []]
    except PackageNotFoundError:
        return []
    return [one for one in found if one.marker is None or any(one.marker.evaluate({"extra": e}) for e in ("", *extras))]


class _Finder:
    """Wraps a finder and hides the modules of some packages."""

    def __init__(self, finder: Any, hidden: set[str]) -> None:
        self._finder, self._hidden = finder, hidden

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return None if name.partition(".")[0] in self._hidden else self._finder.find_spec(name, path, target)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)


def hide_others(extra: str | None) -> None:
    """Hides all packages that the extra does not install; None stands for no extra."""
    allowed = closure(extra) | {"bert-tf"}
    hidden = {
        module
        for module, packages in packages_distributions().items()
        if not {normalized(package) for package in packages} & allowed
    }
    for module in [name for name in sys.modules if name.partition(".")[0] in hidden]:
        del sys.modules[module]
    sys.meta_path[:] = [_Finder(finder, hidden) for finder in sys.meta_path]

"""A file system in memory with faults, `faulty://bucket/name`. Importing this module registers it.

Buckets must be created with `create_bucket`. `FAULTS` has exceptions, or functions that replace an operation, for the
next calls of each operation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import fsspec
from fsspec.implementations.memory import MemoryFileSystem

FAULTS: dict[str, list[Exception | Callable[..., Any]]] = defaultdict(list)
CALLS: list[tuple[str, str]] = []
_BUCKETS: set[str] = set()


class FaultyFileSystem(MemoryFileSystem):
    protocol = "faulty"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    cachable = False
    # As those of object stores, whose first names are buckets.
    root_marker = ""

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path.replace("faulty://", "memory://"))

    def _call(self, operation: str, path: str, *args: Any, **kwargs: Any) -> Any:
        CALLS.append((operation, path))
        if FAULTS[operation]:
            fault = FAULTS[operation].pop(0)
            if isinstance(fault, Exception):
                raise fault
            return fault(super(), path, *args, **kwargs)
        if path.strip("/").partition("/")[0] not in _BUCKETS:
            raise FileNotFoundError(path)
        return getattr(super(), operation)(path, *args, **kwargs)

    def find(self, path: str, **kwargs: Any) -> Any:
        return self._call("find", self._strip_protocol(path), **kwargs)

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        if self._strip_protocol(path).strip("/") in _BUCKETS:
            return [{"name": path, "type": "file", "size": 0}]
        return super().ls(path, detail=detail, **kwargs)

    def cat_file(self, path: str, **kwargs: Any) -> Any:
        return self._call("cat_file", self._strip_protocol(path), **kwargs)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> Any:
        return self._call("pipe_file", self._strip_protocol(path), value, mode=mode, **kwargs)

    def get_file(self, rpath: str, lpath: str, **kwargs: Any) -> Any:
        return self._call("get_file", self._strip_protocol(rpath), lpath, **kwargs)

    def put_file(self, lpath: str, rpath: str, **kwargs: Any) -> Any:
        CALLS.append(("put_file", rpath))
        if FAULTS["put_file"]:
            fault = FAULTS["put_file"].pop(0)
            if isinstance(fault, Exception):
                raise fault
            return fault(self, lpath, rpath)
        if self._strip_protocol(rpath).strip("/").partition("/")[0] not in _BUCKETS:
            raise FileNotFoundError(rpath)
        return super().put_file(lpath, rpath, **kwargs)

    def rm_file(self, path: str) -> Any:
        return self._call("rm_file", self._strip_protocol(path))


fsspec.register_implementation("faulty", FaultyFileSystem, clobber=True)


def create_bucket(name: str) -> str:
    """Creates an empty bucket, forgets all faults, and returns the URL of the bucket."""
    _BUCKETS.add(name)
    for path in [path for path in FaultyFileSystem.store if path.startswith(f"/{name}/")]:
        del FaultyFileSystem.store[path]
    FAULTS.clear()
    CALLS.clear()
    return f"faulty://{name}"


def truncated_download(system: Any, path: str, target: str, **kwargs: Any) -> None:
    """Downloads only the first half of an object."""
    content = FaultyFileSystem.store[path].getvalue()
    Path(target).write_bytes(content[: len(content) // 2])


def whole_upload(system: Any, source: str, path: str, **kwargs: Any) -> None:
    """Uploads a file without a fault."""
    MemoryFileSystem.pipe_file(system, path, Path(source).read_bytes())


def truncated_upload(system: Any, source: str, path: str, **kwargs: Any) -> None:
    """Uploads only the first half of a file."""
    content = Path(source).read_bytes()
    MemoryFileSystem.pipe_file(system, path, content[: len(content) // 2])

"""Leases: objects that keep two writers of one output apart."""

from __future__ import annotations

import functools
import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from bert_tf.storage.errors import StoreError
from bert_tf.storage.stores import StoredFile

# Seconds between two renewals of a lease, between two looks at the lease of another process, and without a renewal
# until a lease has ended.
RENEWAL, LOOK, END = 10.0, 5.0, 60.0

_LOGGER = logging.getLogger(__name__)


class LeaseError(RuntimeError):
    """Another process writes to the output."""


class LeaseStore(Protocol):
    """The functions of `Store` and `LocalStore` that a lease uses."""

    def path(self, name: str) -> str:
        """Returns the URL or path of an object."""

    def read(self, name: str) -> bytes | None:
        """Returns the content of an object, None if it does not exist."""

    def info(self, name: str) -> StoredFile | None:
        """Returns size and tag of an object, None if it does not exist."""

    def write(self, name: str, content: bytes, *, create: bool = False, replaces: StoredFile | None = None) -> object:
        """Writes an object.

        Raises FileExistsError with `create` if it exists, and with `replaces` if it is another object.
        """

    def delete(self, name: str) -> None:
        """Deletes an object."""


class Lease:
    """The right to write below a URL, renewed by a thread until it is released.

    A lease has ended if it was not renewed for `END` seconds while a new writer looks at it. No clock of another
    machine is read. The lease of a process of this machine that no longer exists ends at once.

    Args:
        store: store of the directory around the output.
        name: name of the output. The lease is beside it, `.NAME.lease`, because the output may be a file.
        token: name of this writer. A lease with the same token is taken over at once.
        sleep: function that waits a number of seconds between two looks.
    """

    def __init__(self, store: LeaseStore, name: str, token: str, sleep: Callable[[float], None] = time.sleep) -> None:
        self.token, self.output = token, store.path(name)
        self._store, self._sleep, self._name = store, sleep, f".{name}.lease"
        self._renewals = 0
        self._released = threading.Event()
        # A renewal must not follow a release.
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._renew_until_released, name="bert_tf-lease", daemon=True)

    def acquire(self, wait: bool = True) -> bool:
        """Acquires the lease and returns True if nobody else has written since this writer held it last.

        Args:
            wait: whether to wait for a sign of a process of another machine that holds the lease; otherwise it counts
                as alive.

        Raises:
            LeaseError: if another process holds it.
        """
        holder, stored = self._look()
        was_own = holder is not None and holder.get("token") == self.token
        if holder is not None and not was_own and not _has_ended(holder):
            if not wait:
                raise self._error(holder)
            stored = self._wait_for_end(holder, stored)
        try:
            self._write(stored)
        except FileExistsError:
            raise self._error(self._read() or {}) from None
        # Of two processes that took over the same lease, the last one has it, if the store cannot compare tags.
        self.check()
        self._thread.start()
        return was_own

    def check(self) -> None:
        """Raises LeaseError if another process has taken the lease over."""
        holder = self._read()
        if holder is None or holder.get("token") != self.token:
            raise self._error(holder or {})

    def release(self) -> None:
        """Ends the lease, unless another process has it."""
        self._released.set()
        with self._writing:
            if (self._read() or {}).get("token") == self.token:
                self._store.delete(self._name)

    def _wait_for_end(self, holder: dict[str, Any], stored: StoredFile | None) -> StoredFile | None:
        """Returns the object of a lease that was not renewed for long enough, None if it was released.

        Raises LeaseError if it was renewed.
        """
        _warn_once(f"{self.output}: {_described(holder)} has the lease; waiting up to {END:g} s for a sign of it")
        for _ in range(round(END / LOOK)):
            self._sleep(LOOK)
            current, stored = self._look()
            if current is None:
                return None
            if current != holder:
                raise self._error(current)
        return stored

    def _renew_until_released(self) -> None:
        while not self._released.wait(RENEWAL):
            try:
                with self._writing:
                    if self._released.is_set() or not self._renew():
                        return
            except StoreError as error:
                _LOGGER.warning("%s: the lease could not be renewed: %s", self.output, error)

    def _renew(self) -> bool:
        """Renews the lease and returns True, False if another process has taken it over."""
        holder, stored = self._look()
        if (holder or {}).get("token") != self.token:
            return False
        self._renewals += 1
        try:
            self._write(stored)
        except FileExistsError:
            return False
        return True

    def _write(self, stored: StoredFile | None) -> None:
        """Writes the lease. Raises FileExistsError if the object in the store is not `stored`, None if absent."""
        self._store.write(self._name, self._content(), create=stored is None, replaces=stored)

    def _look(self) -> tuple[dict[str, Any] | None, StoredFile | None]:
        """Returns the lease and its object; the content is never older than the object."""
        stored = self._store.info(self._name)
        holder = self._read() if stored else None
        return holder, None if holder is None else stored

    def _content(self) -> bytes:
        fields = {"token": self.token, "host": _host(), "pid": os.getpid(), "renewals": self._renewals}
        return json.dumps(fields).encode()

    def _read(self) -> dict[str, Any] | None:
        content = self._store.read(self._name)
        if content is None:
            return None
        try:
            fields = json.loads(content)
        except ValueError:
            fields = None
        return fields if isinstance(fields, dict) else {}

    def _error(self, holder: dict[str, Any]) -> LeaseError:
        return LeaseError(
            f"{self.output}: another process ({_described(holder)}) is writing here. Wait until it ends, or choose "
            "another output."
        )


def new_token() -> str:
    """Returns a token that no other writer has."""
    return uuid.uuid4().hex


@functools.cache
def _warn_once(message: str) -> None:
    _LOGGER.warning("%s", message)


def _described(holder: dict[str, Any]) -> str:
    host = str(holder.get("host", "an unknown host")).partition("/")[0]
    return f"process {holder.get('pid', 'unknown')} of {host}"


def _host() -> str:
    """Returns a name of this machine and of its processes' numbers: equal names have the same process ids."""
    parts = [socket.gethostname()]
    for path, read in (("/proc/sys/kernel/random/boot_id", Path.read_text), ("/proc/self/ns/pid", os.readlink)):
        try:
            parts.append(str(read(Path(path))).strip())
        except OSError:
            parts.append("")
    return "/".join(parts)


def _has_ended(holder: dict[str, Any]) -> bool:
    """Returns True if the holder is a process of this machine that no longer exists."""
    pid = holder.get("pid")
    if holder.get("host") != _host() or not isinstance(pid, int) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
        # A zombie has ended, but its parent has not asked for its exit status, as in containers without an init.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except ProcessLookupError:
        return True
    except OSError:
        return False

"""Objects in a directory of this machine or of a mounted file system, for leases."""

from __future__ import annotations

import hashlib
import os
import uuid
from pathlib import Path

from bert_tf.config.files import write_file
from bert_tf.storage.stores import StoredFile


class LocalStore:
    """The part of `Store` that a `Lease` needs, on the files of a directory.

    Args:
        directory: existing directory.

    Example:
        >>> from pathlib import Path
        >>> from bert_tf.storage.local import LocalStore
        >>> store = LocalStore(Path("."))
        >>> store.write("a.lease", b"held", create=True)
        >>> store.read("a.lease")
        b'held'
        >>> store.delete("a.lease")
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def path(self, name: str) -> str:
        """Returns the path of a file."""
        return str(self._directory / name)

    def read(self, name: str) -> bytes | None:
        """Returns the content of a file, None if it does not exist."""
        try:
            return (self._directory / name).read_bytes()
        except FileNotFoundError:
            return None

    def info(self, name: str) -> StoredFile | None:
        """Returns size and hash of a file, None if it does not exist."""
        content = self.read(name)
        return None if content is None else StoredFile(len(content), hashlib.sha256(content).hexdigest())

    def write(self, name: str, content: bytes, *, create: bool = False, replaces: StoredFile | None = None) -> None:
        """Writes a file atomically.

        Args:
            name: name of the file.
            content: its content.
            create: whether the file must not exist.
            replaces: the file to replace. It is compared before the file is written, not at the same time.

        Raises:
            FileExistsError: with `create` if the file exists, and with `replaces` if it is another one.
        """
        if replaces is not None and self.info(name) != replaces:
            raise FileExistsError(f"{self.path(name)} was changed by another process")
        path = self._directory / name
        if not create:
            write_file(path, content)
            return
        # Other than opening with O_EXCL, a link never shows a file without its content.
        staging = path.with_name(f".{name}.{uuid.uuid4().hex[:12]}.tmp")
        try:
            staging.write_bytes(content)
            os.link(staging, path)
        finally:
            staging.unlink(missing_ok=True)

    def delete(self, name: str) -> None:
        """Deletes a file, which may be missing."""
        (self._directory / name).unlink(missing_ok=True)

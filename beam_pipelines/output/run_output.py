"""Exclusive writes to an output directory: one run at a time, and no workers of earlier runs."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from beam_pipelines.errors import PipelineError
from beam_pipelines.output import storage
from bert_tf.config import ConfigError
from bert_tf.config.files import only_writer, sync_directory

T = TypeVar("T")
# Entries of the output directory during a run: a folder on a local path, a file on an object store.
STAGING_PREFIX, TOKEN_NAME = ".staging-", ".run_token"


@contextlib.contextmanager
def only_run(directory: str, doing: str) -> Iterator[None]:
    """Locks a local directory, created if missing, against other drivers on this machine inside the block.

    Other processes show `another process is DOING DIRECTORY`. The lock is released when the process ends for any
    reason. Beam's file systems have no locks: on an object store a second run is not refused, but takes over the
    directory (see `RunOutput`).

    Raises ConfigError if the directory cannot be created or opened, and PipelineError if another process has locked it.
    """
    with contextlib.ExitStack() as stack:
        if storage.is_local(directory):
            try:
                Path(directory).mkdir(parents=True, exist_ok=True)
                stack.enter_context(only_writer(Path(directory), doing))
            except FileExistsError as error:
                raise ConfigError(f"--output: {directory} is a file, not a directory.") from error
            except OSError as error:
                raise _unwritable(directory, error) from error
            except RuntimeError as error:
                raise PipelineError(str(error)) from error
        yield


@dataclass(frozen=True)
class RunOutput:
    """Writes the files of one run, identified by its token.

    Workers may outlive a killed driver, on this machine for moments, on a cluster for hours. Once the next run has
    begun, they can no longer change its files:

    - On a local path every file is written to the staging folder of its run and then renamed. The next run removes the
      folder, so the rename fails.
    - On an object store `.run_token` contains the token of the newest run. Workers read it before each write and stop
      if it is not the token of their run.
    """

    directory: str
    token: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    @property
    def staging(self) -> str:
        """Staging folder; workers also keep temporary files in it until the run ends."""
        return storage.join(self.directory, STAGING_PREFIX + self.token)

    def owns(self, name: str) -> bool:
        """Returns True if `begin` created the directory entry `name`."""
        return name in (STAGING_PREFIX + self.token, TOKEN_NAME)

    def begin(self) -> None:
        """Takes over the directory from earlier runs; the driver calls it before the pipeline starts.

        Raises ConfigError if the directory cannot be written.
        """
        try:
            if storage.is_local(self.directory):
                for older in sorted(Path(self.directory).glob(f"{STAGING_PREFIX}*")):
                    _remove(older)
                Path(self.staging).mkdir(parents=True)
            else:
                storage.write(self._token_path, self.token.encode())
        except OSError as error:
            raise _unwritable(self.directory, error) from error

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """Removes the entries of `begin` when the block ends; later writes fail.

        If the block raises, an object store keeps the token, because the job may continue without its driver.
        """
        try:
            yield
        except BaseException:
            if storage.is_local(self.directory):
                self._end()
            raise
        self._end()

    def _end(self) -> None:
        if not storage.is_local(self.directory):
            storage.delete([self._token_path])
        elif Path(self.staging).exists():
            _remove(Path(self.staging))

    def check(self) -> None:
        """Raises PipelineError if another run has taken over the directory."""
        if storage.is_local(self.directory):
            is_current = Path(self.staging).is_dir()
        else:
            is_current = storage.read(self._token_path) == self.token.encode()
        if not is_current:
            raise PipelineError(
                f"{self.directory}: another run has taken it over, it was deleted, or this worker cannot access it. "
                "Start one run at a time, with an --output that all workers can access."
            )

    def write(self, path: str, content: bytes) -> None:
        """Writes the file at `path` atomically; an existing file is replaced. Raises PipelineError like `write_in`."""
        folder, name = storage.split(path)
        self.write_in(folder, lambda local: storage.write(str(local / name), content))

    def write_in(self, directory: str, writer: Callable[[Path], T]) -> T:
        """Calls `writer` with a local folder, moves the files it writes to `directory`, and returns its result.

        The directory is created if missing. Raises PipelineError if another run has taken over the output directory.
        """
        local = storage.is_local(self.directory)
        try:
            with tempfile.TemporaryDirectory(dir=self.staging if local else None) as folder:
                result = writer(Path(folder))
                self.check()
                for file in sorted(Path(folder).iterdir()):
                    _publish(file, directory)
        except FileNotFoundError:
            self.check()
            raise
        return result

    @property
    def _token_path(self) -> str:
        return storage.join(self.directory, TOKEN_NAME)


def _publish(file: Path, directory: str) -> None:
    if storage.is_local(directory):
        Path(directory).mkdir(parents=True, exist_ok=True)
        file.replace(Path(directory, file.name))
        sync_directory(Path(directory))
    else:
        storage.write(storage.join(directory, file.name), file.read_bytes())


def _remove(folder: Path) -> None:
    """Renames a folder, so that other processes cannot open files in it any more, and deletes it."""
    renamed = folder.with_name(f"{STAGING_PREFIX}{uuid.uuid4().hex[:12]}.removed")
    shutil.rmtree(folder.rename(renamed))


def _unwritable(directory: str, error: OSError) -> ConfigError:
    return ConfigError(f"--output: {directory} cannot be written ({error}). Choose another directory.")

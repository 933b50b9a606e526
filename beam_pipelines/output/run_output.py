"""The output directory while a run writes to it: one run at a time, and no worker of an earlier one."""

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
from bert_tf.data.atomic_files import only_writer, sync_directory

T = TypeVar("T")
# In the output directory while a run lasts: a folder on a local path, a file on an object store.
STAGING_PREFIX, TOKEN_NAME = ".staging-", ".run_token"


@contextlib.contextmanager
def only_run(directory: str, doing: str) -> Iterator[None]:
    """Keeps other drivers on this machine away from a local directory as long as the block runs.

    The lock ends with the process, however that ends. Beam's file systems have no locks: on an object store a second
    run is not refused, but takes the directory over (see `RunOutput`).

    Args:
        directory: created when missing.
        doing: what the run does, for the message to another: `another process is DOING DIRECTORY`.

    Raises:
        ConfigError: when the directory cannot be created or opened.
        PipelineError: when another process has it.
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
    """Writes the files of one run.

    Workers may outlive a driver that is killed, on this machine for moments, on a cluster for hours. Once the next run
    has begun, they cannot change its files any more:

    - On a local path every file is written to a staging folder of its run and then renamed. The next run removes the
      folder, so that the rename fails.
    - On an object store `.run_token` holds the token of the newest run. Workers read it before each file they
      write, and end when it is not theirs.

    Args:
        directory: the output directory.
        token: names the run.
    """

    directory: str
    token: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    @property
    def staging(self) -> str:
        """The staging folder; also for what workers keep on disk until the run ends."""
        return storage.join(self.directory, STAGING_PREFIX + self.token)

    def owns(self, name: str) -> bool:
        """Returns True if `name`, of an entry of the directory, is what `begin` created."""
        return name in (STAGING_PREFIX + self.token, TOKEN_NAME)

    def begin(self) -> None:
        """Takes the directory over from earlier runs. The driver calls it before the pipeline starts.

        Raises:
            ConfigError: when the directory cannot be written.
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
        """Removes what `begin` created when the block ends; nothing can be written any more.

        When the block raises, an object store keeps the token: the job may go on without its driver.
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
        """Raises PipelineError when another run has taken the directory over."""
        if storage.is_local(self.directory):
            own = Path(self.staging).is_dir()
        else:
            own = storage.read(self._token_path) == self.token.encode()
        if not own:
            raise PipelineError(
                f"{self.directory}: another run has taken it over, it was deleted, or this worker cannot see it. "
                "Start one run at a time, with an --output that all workers see."
            )

    def write(self, path: str, content: bytes) -> None:
        """Writes the file at `path`, whole or not at all; an older file is replaced.

        Raises:
            PipelineError: when another run has taken the directory over.
        """
        folder, name = storage.split(path)
        self.write_in(folder, lambda local: storage.write(str(local / name), content))

    def write_in(self, directory: str, writer: Callable[[Path], T]) -> T:
        """Calls `writer` with a local folder and moves the files it writes to `directory`.

        Args:
            directory: created when missing.
            writer: writes files into the folder it is given.

        Returns:
            The value that `writer` returns.

        Raises:
            PipelineError: when another run has taken the directory over.
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
    """Deletes a folder that others may be writing to: none can open a file in it once it has another name."""
    renamed = folder.with_name(f"{STAGING_PREFIX}{uuid.uuid4().hex[:12]}.removed")
    shutil.rmtree(folder.rename(renamed))


def _unwritable(directory: str, error: OSError) -> ConfigError:
    return ConfigError(f"--output: {directory} cannot be written ({error}). Choose another directory.")

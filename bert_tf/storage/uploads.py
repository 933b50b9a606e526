"""Uploads in the background: snapshots of a working copy, one at a time."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

# Larger files of a working copy are written once and then renamed, so that a link keeps their content. Smaller ones are
# copied, because some are appended to, such as the history of a run.
COPIED_BYTES = 64 * 2**20
# Seconds without an answer of the store before a waiting process reports the progress, and between two reports.
REPORT_SECONDS = 5.0

# Size in bytes and modification time in nanoseconds.
Stat = tuple[int, int]


@dataclass(frozen=True)
class Snapshot:
    """The files of a working copy at one time.

    Args:
        stats: size and modification time of all files by name.
        sources: paths of the files to upload by name.
        folder: folder of links and copies; None if the sources are the working copy itself.
    """

    stats: Mapping[str, Stat]
    sources: Mapping[str, Path]
    folder: Path | None = None

    @classmethod
    def of(cls, files: Mapping[str, Path], is_changed: Callable[[str, Stat], bool]) -> Snapshot:
        """Returns a snapshot for an upload that ends before the files change again."""
        stats = {name: stat_of(path) for name, path in files.items()}
        return cls(stats, {name: path for name, path in files.items() if is_changed(name, stats[name])})

    def kept_in(self, parent: Path) -> Snapshot:
        """Returns the same snapshot in a new folder, which later changes do not affect.

        Raises OSError if the disk is full.
        """
        parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=parent))
        sources = {}
        try:
            for number, (name, path) in enumerate(self.sources.items()):
                sources[name] = folder / str(number)
                _keep(path, sources[name], self.stats[name][0] > COPIED_BYTES)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return Snapshot(self.stats, sources, folder)

    def remove(self) -> None:
        """Removes the links and copies."""
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)


def stat_of(path: Path) -> Stat:
    """Returns size and modification time of a file."""
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns


def _keep(path: Path, target: Path, is_large: bool) -> None:
    if is_large:
        # Not every file system has links.
        with contextlib.suppress(OSError):
            os.link(path, target)
            return
    shutil.copyfile(path, target)


@dataclass
class Progress:
    """Files and bytes of an upload that have been uploaded, and those of the whole upload."""

    files: int = 0
    bytes: int = 0
    done_files: int = 0
    done_bytes: int = 0

    def start(self, sizes: list[int]) -> None:
        """Begins an upload of files with these sizes."""
        self.files, self.bytes, self.done_files, self.done_bytes = len(sizes), sum(sizes), 0, 0

    def add(self, size: int) -> None:
        """Counts an uploaded file."""
        self.done_files += 1
        self.done_bytes += size

    def __str__(self) -> str:
        megabytes = f"{self.done_bytes / 1e6:.1f} of {self.bytes / 1e6:.1f} MB"
        return f"{self.done_files} of {self.files} files, {megabytes}"


class StoppedError(Exception):
    """The upload was stopped between two files."""


@dataclass
class Uploader:
    """Uploads snapshots in a thread, one at a time. A snapshot that waits is replaced by a newer one.

    Args:
        upload: uploads a snapshot; calls `check_stopped` before each file.
        target: URL in reports.
        progress: progress of the current upload.
    """

    upload: Callable[[Snapshot], None]
    target: str
    progress: Progress = field(default_factory=Progress)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: Snapshot | None = None
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None
        self._stopped = threading.Event()

    def submit(self, snapshot: Snapshot) -> None:
        """Uploads a snapshot after the current one. Raises the error of an earlier upload."""
        with self._lock:
            failure, self._failure = self._failure, None
            if failure is None:
                replaced, self._waiting = self._waiting, snapshot
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="bert_tf-upload", daemon=True)
                    self._thread.start()
        if failure is not None:
            snapshot.remove()
            raise failure
        if replaced:
            replaced.remove()

    def wait(self) -> None:
        """Waits until everything is uploaded, with reports on stderr. Raises the error of the upload."""
        while thread := self._thread:
            thread.join(REPORT_SECONDS)
            if thread.is_alive():
                print(f"uploading to {self.target}: {self.progress}", file=sys.stderr, flush=True)
        with self._lock:
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def forget_failure(self) -> None:
        """Forgets the error of an earlier upload, because everything is uploaded again."""
        with self._lock:
            self._failure = None

    def stop(self) -> None:
        """Ends the upload before its next file."""
        self._stopped.set()

    def check_stopped(self) -> None:
        """Raises StoppedError after `stop`."""
        if self._stopped.is_set():
            raise StoppedError

    def _run(self) -> None:
        while snapshot := self._next():
            try:
                self.upload(snapshot)
            except StoppedError:
                pass
            except Exception as error:
                with self._lock:
                    self._failure = error
            finally:
                snapshot.remove()

    def _next(self) -> Snapshot | None:
        """Returns the waiting snapshot, None at the end of the thread: without a snapshot or after a failure."""
        with self._lock:
            snapshot, self._waiting = self._waiting, None
            if snapshot and self._failure is None and not self._stopped.is_set():
                return snapshot
            self._thread = None
        if snapshot:
            snapshot.remove()
        return None

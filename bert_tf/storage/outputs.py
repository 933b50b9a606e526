"""Outputs on a store: a working copy on this machine whose changes are uploaded, markers last."""

from __future__ import annotations

import contextlib
import logging
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bert_tf.config import local_path
from bert_tf.config.files import only_writer
from bert_tf.storage.cache import folder_of, locked, name_of, read_journal, write_journal
from bert_tf.storage.errors import NotRetriedError, StoreError, is_full_disk
from bert_tf.storage.leases import Lease, LeaseError, new_token
from bert_tf.storage.stores import Store, StoredFile, is_url
from bert_tf.storage.uploads import Snapshot, Stat, Uploader, stat_of

# Files that make the files of their directory complete: uploaded last, deleted first.
MARKERS = frozenset({"state.json", "config.json", "result.json", "saved_model.pb", "manifest.json"})
# Directories that are read only if they have their marker.
_MARKED = (
    (re.compile(r"step-\d{8,}"), "state.json"),
    (re.compile(r"preset"), "config.json"),
)
_ASIDE, _SNAPSHOTS = ".outdated", ".snapshots"
_CHECKPOINT = re.compile(r"step-\d{8,}")

_LOGGER = logging.getLogger(__name__)
# Outputs that this process writes, and those of another process that it reads.
_OPEN: list[Output] = []
_READ: list[Output] = []


class Output:
    """The working copy of an output at a URL.

    Args:
        url: URL of the output directory, or of an output file.
        folder: folder of the working copy in the cache; the output is `folder/NAME`.
        fetches: whether the files of the store are fetched. Otherwise only its directories are created, for an export
            beside earlier versions.
        sleep: function that waits a number of seconds before another attempt.
    """

    def __init__(
        self, url: str, folder: Path, fetches: bool = True, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.url, self.folder = url.rstrip("/"), folder
        self.path = folder / name_of(url)
        self._fetches = fetches
        self._store = Store(self.url, sleep)
        journal = read_journal(folder)
        self._token: str = journal.get("token") or new_token()
        # By name: size and tag in the store, size and modification time of the local file that was uploaded.
        self._files: dict[str, list[Any]] = journal.get("files", {})
        parent = self.url.rpartition("/")[0]
        if not is_url(parent):
            raise NotRetriedError(f"{self.url}: an output must be below a bucket, for example {self.url}/run.")
        self._parent = Store(parent, sleep)
        self._lease = Lease(self._parent, name_of(url), self._token, sleep)
        self._uploader = Uploader(self._upload, self.url)

    def open(self) -> None:
        """Acquires the lease and makes the working copy equal to the store, unless it is the newer one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        # Of a process that was killed.
        shutil.rmtree(self.folder / _SNAPSHOTS, ignore_errors=True)
        is_ours = self._lease.acquire()
        try:
            self._remember()
            self.fetch(is_ours)
        except BaseException:
            self.close()
            raise

    def fetch(self, keeps_local: bool = False) -> None:
        """Fetches the store's files. With `keeps_local`, or if only this machine has written, local files stay."""
        remote = {name: file for name, file in self._store.files().items() if not _is_hidden(name)}
        stored = {name: [file.size, file.tag] for name, file in remote.items()}
        if keeps_local or stored == {name: entry[:2] for name, entry in self._files.items()}:
            known = self._files
            self._files = {n: self._entry(f, known.get(n)) for n, f in remote.items()}
        else:
            self._set_unsaved_aside()
            self._replace_by(self._complete(remote))
        self._remember()

    def publish(self) -> None:
        """Uploads all changes, markers last, and waits for the end.

        Raises:
            StoreError: if the store refuses or does not answer; names the directory on this machine.
            LeaseError: if another process has taken over the output.
        """
        self._uploader.forget_failure()
        with self._naming_saved_files():
            self._uploader.submit(Snapshot.of(self._local(), self._may_be_uploaded))
            self._uploader.wait()

    def publish_later(self) -> None:
        """Uploads the present files in the background, after an upload that runs.

        Raises:
            StoreError: if an earlier upload has failed; names the directory on this machine.
            LeaseError: if an earlier upload has found that another process has taken over the output.
            OSError: if the disk is full.
        """
        with self._naming_saved_files():
            snapshot = Snapshot.of(self._local(), self._may_be_uploaded)
            self._uploader.submit(snapshot.kept_in(self.folder / _SNAPSHOTS))

    def publish_siblings(self) -> None:
        """Uploads files that were written next to the output, such as skipped examples, and removes them here."""
        for path in sorted(p for p in self.folder.iterdir() if p.is_file() and p != self.path and p.name[0] != "."):
            self._lease.check()
            self._parent.upload(path, path.name)
            path.unlink()

    def close(self) -> None:
        """Stops an upload that still runs, and releases the lease."""
        self._uploader.stop()
        try:
            self._lease.release()
        except StoreError as error:
            # The lease ends by itself.
            _LOGGER.warning("%s: the lease could not be deleted: %s", self.url, error)

    def _upload(self, snapshot: Snapshot) -> None:
        """Uploads a snapshot. At any time, the store has the files of a marker and a whole checkpoint.

        The markers of changed directories are deleted first and uploaded last. Removed directories, such as earlier
        checkpoints, are deleted after the upload of new ones.
        """
        changed = [name for name in snapshot.sources if self._is_changed(name, snapshot.stats[name])]
        removed = [name for name in self._files if name not in snapshot.stats and not self._is_placeholder(name)]
        if not changed and not removed:
            return
        kept = {parent for name in snapshot.stats for parent in Path(name).parents}
        gone = [name for name in removed if Path(name).parent not in kept]
        self._delete(
            [name for name in removed if name not in gone],
            _markers_above([*changed, *removed], self._files) - set(gone),
        )
        changed = [name for name in snapshot.sources if self._is_changed(name, snapshot.stats[name])]
        last = _markers_above(removed, changed)
        self._uploader.progress.start([snapshot.stats[name][0] for name in changed])
        self._put(snapshot, [name for name in changed if name not in last])
        self._delete(gone, set())
        self._put(snapshot, sorted(last))

    def _put(self, snapshot: Snapshot, names: list[str]) -> None:
        for name in sorted(names, key=_upload_order):
            self._check_may_write()
            stored = self._store.upload(snapshot.sources[name], name)
            self._files[name] = [stored.size, stored.tag, *snapshot.stats[name]]
            self._remember()
            self._uploader.progress.add(snapshot.stats[name][0])

    def _delete(self, names: list[str], markers: set[str]) -> None:
        for name in _deleted_first(names, markers):
            self._check_may_write()
            self._store.delete(name)
            self._files.pop(name, None)
            self._remember()

    def _check_may_write(self) -> None:
        self._uploader.check_stopped()
        self._lease.check()

    @contextlib.contextmanager
    def _naming_saved_files(self) -> Iterator[None]:
        """Adds the place of the files on this machine to errors of an upload."""
        try:
            yield
        except (StoreError, LeaseError) as error:
            raise type(error)(f"{error} {self._saved_here()}") from error
        except OSError as error:
            if not is_full_disk(error):
                raise
            raise OSError(
                error.errno,
                f"no space left for the upload to {self.url}. Free some space, or set BERT_TF_CACHE to a directory on "
                f"a larger disk. {self._saved_here()}",
                str(self.folder),
            ) from error

    def _complete(self, remote: Mapping[str, StoredFile]) -> dict[str, StoredFile]:
        """Returns the files of the store without those of directories that lack their marker."""
        incomplete = {name: directory for name in remote if (directory := _without_marker(name, remote))}
        for directory in sorted(set(incomplete.values())):
            _LOGGER.warning(
                "%s is ignored: it is incomplete, because its upload was interrupted", self._store.path(directory)
            )
        return {name: file for name, file in remote.items() if name not in incomplete}

    def _replace_by(self, remote: Mapping[str, StoredFile]) -> None:
        """Replaces the working copy by the files of the store; unchanged local files stay."""
        local, known = self._local(), self._files
        kept = {
            name
            for name, file in remote.items()
            if self._fetches
            and name in local
            and not self._is_changed(name, stat_of(local[name]))
            and known[name][:2] == [file.size, file.tag]
        }
        for name, path in local.items():
            if name not in kept:
                path.unlink()
        self._files = {}
        for name, file in remote.items():
            target = self.path / name if name else self.path
            if not self._fetches:
                if "/" in name:
                    (self.path / name.partition("/")[0]).mkdir(parents=True, exist_ok=True)
                continue
            if name not in kept:
                self._store.download(name, target, file)
            self._files[name] = [file.size, file.tag, *stat_of(target)]

    def _set_unsaved_aside(self) -> None:
        """Moves a working copy with changes that were never uploaded, because the store has other changes."""
        if any(self._is_changed(name, stat_of(path)) for name, path in self._local().items()):
            aside = self.folder / _ASIDE
            shutil.rmtree(aside, ignore_errors=True)
            self.path.rename(aside)
            _LOGGER.warning("%s: another machine has continued here; changes not uploaded are in %s", self.url, aside)

    def _entry(self, file: StoredFile, known: list[Any] | None) -> list[Any]:
        is_same = known is not None and known[:2] == [file.size, file.tag]
        return [file.size, file.tag, *(known[2:] if known and is_same else (None, None))]

    def _local(self) -> dict[str, Path]:
        """Returns the files of the working copy by name, without hidden ones; "" is the output itself."""
        if self.path.is_file():
            return {"": self.path}
        names = {p.relative_to(self.path).as_posix(): p for p in sorted(self.path.rglob("*")) if p.is_file()}
        return {name: path for name, path in names.items() if not _is_hidden(name)}

    def _is_changed(self, name: str, stat: Stat) -> bool:
        return name not in self._files or self._files[name][2:] != [*stat]

    def _may_be_uploaded(self, name: str, stat: Stat) -> bool:
        """Returns True for changed files, and for markers, which are uploaded again after their directory."""
        return Path(name).name in MARKERS or self._is_changed(name, stat)

    def _is_placeholder(self, name: str) -> bool:
        return not self._fetches and (self.path / name.partition("/")[0]).is_dir()

    def _remember(self) -> None:
        write_journal(self.folder, {"url": self.url, "token": self._token, "files": self._files})

    def _saved_here(self) -> str:
        checkpoints = sorted(p for p in self.path.rglob("step-*") if _CHECKPOINT.fullmatch(p.name))
        if checkpoints:
            return f"The last checkpoint is {checkpoints[-1]}; the same command on this machine resumes from it."
        return f"All files are in {self.path}; the same command on this machine uploads them."


@contextlib.contextmanager
def working_copy(path: str | Path, *, fetches: bool = True, writes: bool = True) -> Iterator[Path]:
    """Yields a local output path as it is, and the working copy of a URL, whose changes are uploaded at the end.

    Args:
        path: local path, or URL of an output file or directory.
        fetches: False to create only the directories of the store, for outputs that add to them.
        writes: False in a worker that reads the output of the chief: nothing is uploaded.

    Yields:
        The local path.

    Raises:
        LeaseError: if another process writes to the URL.
        StoreError: if the store refuses or does not answer.

    Example:
        >>> from bert_tf.storage import Store, working_copy
        >>> with working_copy("memory://bucket/notes.txt") as path:
        ...     path.write_text("text")
        4
        >>> Store("memory://bucket").read("notes.txt")
        b'text'
    """
    if not is_url(path):
        yield local_path(path)
        return
    url = str(path).rstrip("/")
    folder = folder_of("outputs" if writes else "outputs_of_chief", url)
    output = Output(url, folder, fetches)
    if not writes:
        with locked(folder):
            output.fetch()
        _READ.append(output)
        try:
            yield output.path
        finally:
            _READ.remove(output)
        return
    folder.mkdir(parents=True, exist_ok=True)
    with only_writer(folder, f"writing to {url}, whose working copy is"):
        output.open()
        _OPEN.append(output)
        try:
            output.publish()
            yield output.path
            output.publish()
            output.publish_siblings()
        except (StoreError, LeaseError):
            raise
        except BaseException:
            _publish_rest(output)
            raise
        finally:
            _OPEN.remove(output)
            output.close()


def publish(path: Path) -> None:
    """Uploads the output that holds `path` in the background; does nothing for an output of this machine.

    The files are uploaded as they are now, whatever changes later. One upload runs at a time. If others are asked for
    meanwhile, the last one follows it. `working_copy` waits for the uploads when its block ends.

    Args:
        path: file or directory that has just been written.

    Raises:
        StoreError: if an earlier upload has failed; see `Output.publish_later`.
        LeaseError: if another process has taken over the output.

    Example:
        >>> from pathlib import Path
        >>> from bert_tf.storage import publish
        >>> publish(Path("runs/laptop"))  # not on a store
    """
    for output in _OPEN:
        if path.is_relative_to(output.path):
            output.publish_later()


def settle(path: Path) -> None:
    """Uploads the output that holds `path` and waits for the end; does nothing for an output of this machine.

    Args:
        path: file or directory.

    Raises:
        StoreError: if the store refuses or does not answer.
        LeaseError: if another process has taken over the output.

    Example:
        >>> from pathlib import Path
        >>> from bert_tf.storage import settle
        >>> settle(Path("runs/laptop"))  # not on a store
    """
    for output in _OPEN:
        if path.is_relative_to(output.path):
            output.publish()


def refresh(path: Path) -> None:
    """Fetches what the chief has published, if `path` is in an output that this worker only reads.

    Args:
        path: file or directory that is about to be read.

    Raises:
        StoreError: if the store refuses or does not answer.

    Example:
        >>> from pathlib import Path
        >>> from bert_tf.storage.outputs import refresh
        >>> refresh(Path("runs/laptop"))  # not on a store
    """
    for output in _READ:
        if path.is_relative_to(output.path):
            with locked(output.folder):
                output.fetch()


def _publish_rest(output: Output) -> None:
    """Uploads what a failed block has written; keeps the exception of the block."""
    try:
        output.publish()
    except (StoreError, LeaseError) as error:
        _LOGGER.warning("%s", error)


def _is_hidden(name: str) -> bool:
    return any(part[:1] == "." for part in name.split("/"))


def _without_marker(name: str, files: Mapping[str, StoredFile]) -> str:
    """Returns the directory above a file that lacks its marker, "" if all have it."""
    parts = name.split("/")
    for depth, part in enumerate(parts[:-1], start=1):
        for pattern, marker in _MARKED:
            directory = "/".join(parts[:depth])
            if pattern.fullmatch(part) and f"{directory}/{marker}" not in files:
                return directory
    return ""


def _markers_above(names: Iterable[str], among: Iterable[str]) -> set[str]:
    """Returns the markers in the directories that hold some of the files."""
    directories = {parent for name in names for parent in Path(name).parents}
    return {name for name in among if Path(name).name in MARKERS and Path(name).parent in directories}


def _upload_order(name: str) -> tuple[bool, int, str]:
    """Orders files before markers, and markers of inner directories before those around them."""
    return Path(name).name in MARKERS, -name.count("/"), name


def _deleted_first(removed: list[str], markers: set[str]) -> list[str]:
    """Returns the markers, those of outer directories first, and then the other files to delete."""
    outer = sorted(markers | {n for n in removed if Path(n).name in MARKERS}, key=lambda n: (n.count("/"), n))
    return outer + [name for name in removed if name not in outer]

"""Stores: retries, permanent errors with their next step, and sizes that are compared."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import fsspec
import pytest

from bert_tf.storage import Store, StoreError, is_url, stores
from tests.support.storage.faulty import CALLS, FAULTS, truncated_download, truncated_upload


class NoCredentialsError(Exception):
    """Named as that of botocore."""


class RefreshError(Exception):
    """Named as that of google-auth."""


def refused(code: str) -> PermissionError:
    """Returns the error of s3fs for an error of botocore."""
    error = PermissionError("Forbidden")
    error.__cause__ = RuntimeError(f"An error occurred ({code}) when calling the PutObject operation")
    return error


class HttpError(Exception):
    """Named as that of gcsfs."""

    def __init__(self, code: int) -> None:
        super().__init__(f"status {code}")
        self.code = code


@pytest.mark.parametrize("path", ["run", "/tmp/run", "a:b", "c:/run", "gs:/bucket", "://x", Path("gs://bucket")])
def test_paths_are_no_urls(path: object) -> None:
    assert not is_url(path)


def test_temporary_failures_are_retried_with_growing_delays(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "DELAYS", (1.0, 2.0, 4.0))
    waited: list[float] = []
    store = Store(f"{bucket}/run", sleep=waited.append)
    store.write("a", b"text")
    FAULTS["cat_file"] = [HttpError(503), TimeoutError(), ConnectionResetError()]
    assert store.read("a") == b"text"
    assert waited == [1.0, 2.0, 4.0]


def test_a_lasting_failure_ends_with_the_number_of_attempts(bucket: str) -> None:
    FAULTS["find"] = [HttpError(500)] * 3
    with pytest.raises(StoreError, match=r"bucket/run: no success after 3 attempts: status 500"):
        Store(f"{bucket}/run").files()


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (NoCredentialsError("Unable to locate credentials"), "no valid credentials"),
        (HttpError(401), "no valid credentials"),
        (HttpError(403), "no permission"),
        (PermissionError("Access Denied"), "no permission"),
        (OSError("Forbidden: https://..."), "no permission"),
        (HttpError(400), "the store refuses"),
        (refused("ExpiredToken"), "no valid credentials"),
        (refused("InvalidAccessKeyId"), "no valid credentials"),
        (refused("RequestTimeTooSkewed"), "Set the clock"),
        (RefreshError("invalid_grant: Bad Request"), "no valid credentials"),
        (RefreshError("invalid_grant: Invalid JWT: Token must be a short-lived token (60 minutes)"), "Set the clock"),
    ],
)
def test_permanent_errors_are_not_repeated(bucket: str, fault: Exception, message: str) -> None:
    FAULTS["find"] = [fault]
    with pytest.raises(StoreError, match=message):
        Store(f"{bucket}/run").files()
    assert [call for call, _ in CALLS] == ["find"]


def test_a_missing_bucket_is_named(bucket: str) -> None:
    assert Store(f"{bucket}/run").files() == {}
    with pytest.raises(StoreError, match="bucket 'other' does not exist"):
        Store("faulty://other/run").files()


def test_a_missing_bucket_of_an_output_is_named(bucket: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    store = Store("faulty://other/run")
    for write in (lambda: store.write("a", b"x", create=True), lambda: store.upload(tmp_path / "file", "a")):
        with pytest.raises(StoreError, match="bucket 'other' does not exist"):
            write()


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def url_to_fs(url: str, **options: Any) -> Any:
        raise ImportError("Please install it")

    monkeypatch.setattr(fsspec.core, "url_to_fs", url_to_fs)
    with pytest.raises(StoreError, match=r"pip install 'bert-tf\[gcs\]'"):
        Store("gs://bucket/run")


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(StoreError, match="nothing://"):
        Store("nothing://bucket/run")


def test_truncated_transfers_are_repeated(bucket: str, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"0123456789")
    store = Store(f"{bucket}/run")
    FAULTS["put_file"] = [truncated_upload]
    file = store.upload(source, "file")
    FAULTS["get_file"] = [truncated_download]
    store.download("file", target, file)
    assert target.read_bytes() == source.read_bytes()
    FAULTS["get_file"] = [truncated_download] * 3
    with pytest.raises(StoreError, match="must have 10 bytes. Received: 5"):
        store.download("file", tmp_path / "other", file)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "target"]


def test_a_full_disk_names_the_cache(bucket: str, tmp_path: Path) -> None:
    store = Store(f"{bucket}/run")
    file = store.write("file", b"text")
    FAULTS["get_file"] = [OSError(errno.ENOSPC, "No space left on device")]
    with pytest.raises(OSError, match="BERT_TF_CACHE") as error:
        store.download("file", tmp_path / "file", file)
    assert error.value.errno == errno.ENOSPC
    assert not list(tmp_path.iterdir())


def test_an_object_is_created_once(bucket: str) -> None:
    store = Store(f"{bucket}/run")
    store.write("lease", b"mine", create=True)
    with pytest.raises(FileExistsError):
        store.write("lease", b"other", create=True)
    assert store.read("lease") == b"mine"


def test_an_object_that_has_changed_is_not_replaced(bucket: str) -> None:
    store = Store(f"{bucket}/run")
    first = store.write("lease", b"1")
    second = store.write("lease", b"2", replaces=first)
    with pytest.raises(FileExistsError):
        store.write("lease", b"3", replaces=first)
    assert store.read("lease") == b"2"
    store.delete("lease")
    with pytest.raises(FileExistsError):
        store.write("lease", b"3", replaces=second)


def test_a_creation_whose_answer_was_lost_succeeds(bucket: str) -> None:
    store = Store(f"{bucket}/run")

    def lost_answer(system: Any, path: str, content: bytes, **kwargs: Any) -> None:
        system.pipe_file(path, content)
        raise ConnectionResetError

    FAULTS["pipe_file"] = [lost_answer]
    store.write("lease", b"mine", create=True)
    assert store.read("lease") == b"mine"


def test_equal_tags_of_listing_and_upload(bucket: str) -> None:
    store = Store(f"{bucket}/run")
    assert store.write("file", b"text") == store.files()["file"]


@pytest.mark.parametrize("secret", ["SECRET", "SEC/RET", "12"])
def test_a_password_in_a_url_is_refused_and_not_shown(secret: str) -> None:
    with pytest.raises(StoreError, match=r"s3://…@bucket/run: a URL must not contain a password") as refused:
        Store(f"s3://KEY:{secret}@bucket/run")
    assert secret not in str(refused.value) and "KEY" not in str(refused.value)


@pytest.mark.parametrize("name", ["a:b@c", "host:9000/user@x"])
def test_colons_and_signs_in_names_are_no_password(name: str) -> None:
    assert Store(f"memory://bucket/{name}").url.endswith(name)
    if name.startswith("host"):
        assert Store(f"memory://{name}").url.endswith(name)

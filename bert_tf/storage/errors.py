"""Errors of object stores: permanent ones with their next step; all others are retried."""

from __future__ import annotations

import errno
import re

# Extras that install the file system of a scheme.
EXTRAS = {"gs": "gcs", "gcs": "gcs", "s3": "s3", "s3a": "s3"}
# Classes of google-auth and botocore, by name, because neither is imported here.
_CREDENTIALS = {
    "CredentialRetrievalError",
    "DefaultCredentialsError",
    "NoCredentialsError",
    "PartialCredentialsError",
    "ProfileNotFound",
    "SSOTokenLoadError",
    "TokenRetrievalError",
    "UnauthorizedSSOTokenError",
}
_LOGIN = {
    "gs": "Run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS.",
    "s3": "Run `aws configure`, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
}
# Codes of S3 and of Google's accounts for wrong or expired credentials.
_INVALID_CREDENTIALS = re.compile(
    r"\b(ExpiredToken|InvalidAccessKeyId|InvalidToken|SignatureDoesNotMatch|TokenRefreshRequired|invalid_grant"
    r"|invalid_client)\b"
)
# Requests are signed with the time; S3 and Google Cloud Storage refuse those of a clock that is minutes off.
_WRONG_CLOCK = re.compile(r"RequestTimeTooSkewed|Invalid JWT: Token must be a short-lived token|Token used too early")
_FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
# HTTP statuses that may be different the next time.
_TEMPORARY_STATUSES = (408, 425, 429)


class StoreError(OSError):
    """An object store refuses a request, or has not answered after all attempts.

    Example:
        >>> from bert_tf.storage import Store, StoreError
        >>> try:
        ...     Store("nothing://bucket/run")
        ... except StoreError:
        ...     print("an unknown scheme")
        an unknown scheme
    """


class NotRetriedError(StoreError):
    """An error that another attempt would not change."""


def permanent(error: Exception, url: str) -> Exception | None:
    """Returns the error to raise for a request that fails whenever it is repeated, None for a temporary failure.

    Args:
        error: exception of a file system of fsspec.
        url: URL of the request.

    Returns:
        The exception itself if its message needs no explanation, such as FileNotFoundError.

    Example:
        >>> from bert_tf.storage.errors import permanent
        >>> str(permanent(PermissionError("AccessDenied"), "s3://bucket/run"))[:40]
        's3://bucket/run: no permission (AccessDe'
        >>> permanent(TimeoutError(), "s3://bucket/run") is None
        True
    """
    scheme = url.partition("://")[0]
    if isinstance(error, (NotRetriedError, FileNotFoundError, FileExistsError, IsADirectoryError)):
        return error
    if isinstance(error, ImportError):
        return missing_file_system(error, scheme)
    if _WRONG_CLOCK.search(_details(error)):
        return NotRetriedError(
            f"{url}: the store refuses requests with the time of this machine ({_reason(error)}). Set the clock, for "
            "example with `timedatectl set-ntp true`."
        )
    if _is_about_credentials(error):
        return NotRetriedError(f"{url}: no valid credentials ({_reason(error)}). {_login(scheme)}")
    if _is_forbidden(error):
        return NotRetriedError(
            f"{url}: no permission ({_reason(error)}). Give the account of this process access to the bucket, or "
            f"select another account. {_login(scheme)}"
        )
    if isinstance(error, OSError) and error.errno in _FULL_DISK:
        return error
    status = _status(error)
    if isinstance(error, (TypeError, ValueError)) or (
        status is not None and 400 <= status < 500 and status not in _TEMPORARY_STATUSES
    ):
        return NotRetriedError(f"{url}: the store refuses the request: {_reason(error)}")
    return None


def missing_file_system(error: ImportError, scheme: str) -> StoreError:
    """Returns the error for a scheme whose package is not installed."""
    if scheme in EXTRAS:
        step = f"Run `pip install 'bert-tf[{EXTRAS[scheme]}]'`."
    else:
        step = f"Install the package of fsspec for it: {_reason(error)}"
    return NotRetriedError(f"`{scheme}://` needs a package that is not installed. {step}")


def is_full_disk(error: BaseException) -> bool:
    """Returns True if a local write failed because the disk or the quota is full."""
    return isinstance(error, OSError) and error.errno in _FULL_DISK


def _login(scheme: str) -> str:
    name = "gs" if scheme == "gcs" else scheme
    return _LOGIN.get(name, "See the documentation of the file system for its credentials.")


def _is_about_credentials(error: Exception) -> bool:
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & _CREDENTIALS or _status(error) == 401 or _INVALID_CREDENTIALS.search(_details(error)):
        return True
    # google-auth marks failures of its server as retryable.
    return "RefreshError" in names and not getattr(error, "retryable", False)


def _is_forbidden(error: Exception) -> bool:
    # gcsfs reports the status 403 as an OSError without a number.
    return isinstance(error, PermissionError) or _status(error) == 403 or str(error).startswith("Forbidden")


def _status(error: Exception) -> int | None:
    """Returns the HTTP status of an error, None if it has none."""
    for name in ("code", "status"):
        value = getattr(error, name, None)
        if isinstance(value, int) or (isinstance(value, str) and value.isdigit()):
            return int(value)
    return None


def _details(error: BaseException) -> str:
    """Returns the message of an error and of its cause, which has the code of botocore."""
    return f"{error} {error.__cause__ or ''}"


def _reason(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return ": ".join(lines[:2]) or type(error).__name__

"""Reads and decompresses HTTP request bodies, with limits on size, time and rate."""

from __future__ import annotations

import asyncio
import zlib
from dataclasses import dataclass

import grpc
from starlette.requests import Request

from bert_tf.serving.errors import ServingError
from bert_tf.serving.requests.admission import Admitted
from bert_tf.serving.requests.cancellation import Cancellation

# Minimum bytes of a body in each period of `pause_seconds`, except the last: 1.6 KiB a second at the default of 5
# seconds. This is about seven times the minimum of Kestrel and IIS (240 bytes a second), because bodies may have
# megabytes here.
MIN_PROGRESS_BYTES = 8 * 2**10
_GZIP_BITS = 16 + zlib.MAX_WBITS
_GZIP = ("gzip", "x-gzip")
_GZIP_BLOCK = 64 * 2**10
# Members of a gzip body; block-wise compressors write one for each 64 KiB.
_MAX_MEMBERS = 1024


@dataclass(frozen=True)
class BodyLimits:
    """Limits of a request body. Larger bodies return status 413, slower ones 408."""

    max_bytes: int = 16 * 2**20  # before and after decompression
    seconds: float = 30.0  # time-out for the whole body
    pause_seconds: float = 5.0  # time-out for each `MIN_PROGRESS_BYTES` of the body


async def read_body(request: Request, admitted: Admitted, limits: BodyLimits) -> bytes:
    """Returns the body of a request, still compressed. Raises ServingError if it is too large or too slow."""
    declared = request.headers.get("content-length")
    if declared is not None and int(declared) > limits.max_bytes:
        raise _too_large(limits)
    parts, size, progress = [], 0, 0
    now = asyncio.get_running_loop().time
    end = now() + limits.seconds
    try:
        async with asyncio.timeout_at(min(end, now() + limits.pause_seconds)) as deadline:
            async for part in request.stream():
                size += len(part)
                progress += len(part)
                if size > limits.max_bytes:
                    raise _too_large(limits)
                admitted.add(len(part))
                parts.append(part)
                if progress >= MIN_PROGRESS_BYTES:
                    progress = 0
                    deadline.reschedule(min(end, now() + limits.pause_seconds))
    except TimeoutError as error:
        message = (
            f"a body must arrive within {limits.seconds:g} seconds, and bring at least {MIN_PROGRESS_BYTES} bytes "
            f"in each {limits.pause_seconds:g} seconds"
        )
        raise ServingError(message, grpc.StatusCode.DEADLINE_EXCEEDED, http_status=408) from error
    return b"".join(parts)


def decompressed(
    body: bytes, encoding: str, admitted: Admitted, limits: BodyLimits, cancellation: Cancellation
) -> bytes:
    """Decompresses a body.

    Raises ServingError for another encoding than gzip, or a body that is damaged, too large or of too many members, and
    CancelledError for a cancelled request.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding not in _GZIP:
        message = f"Content-Encoding must be gzip or identity. Received: {encoding[:40]!r}"
        raise ServingError(message, http_status=415)
    parts, size, place, members = [], 0, 0, 0
    member = None
    try:
        while place < len(body):
            if member is None or member.eof:
                member = zlib.decompressobj(_GZIP_BITS)
                members += 1
                if members > _MAX_MEMBERS:
                    raise ServingError(f"a gzip body must have at most {_MAX_MEMBERS} members")
            cancellation.check()
            # zlib copies what follows a member, so it gets a part at a time.
            block = body[place : place + _GZIP_BLOCK]
            part = member.decompress(block, limits.max_bytes + 1 - size)
            place += len(block) - len(member.unused_data)
            size += len(part)
            if size > limits.max_bytes:
                raise _too_large(limits)
            admitted.add(len(part))
            parts.append(part)
        if member is not None and not member.eof:
            raise zlib.error("incomplete or truncated stream")
    except zlib.error as error:
        raise ServingError(f"the body is not gzip, as its Content-Encoding says: {error}") from error
    return b"".join(parts)


def _too_large(limits: BodyLimits) -> ServingError:
    return ServingError(f"a request must have at most {limits.max_bytes} bytes", http_status=413)

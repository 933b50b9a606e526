"""Access options of both interfaces: host names, bearer tokens, and TLS."""

from __future__ import annotations

import dataclasses
import hmac
import ipaddress
import os
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from bert_tf.config import ConfigError
from bert_tf.serving.errors import ServingError

TOKEN_VARIABLE = "BERT_TF_SERVE_TOKEN"
_SCHEME = "bearer "
_MAX_ADDRESSES = 10_000


@dataclass
class Tokens:
    """Bearer tokens, one of which a request must have.

    Args:
        values: the tokens.
        path: file that `reload` reads again; None for fixed tokens.
    """

    values: tuple[str, ...]
    path: Path | None = None

    def check(self, authorization: str) -> None:
        """Compares the value of an Authorization header with the tokens. Raises ServingError (401) for another one."""
        sent = authorization[len(_SCHEME) :].strip() if authorization.lower().startswith(_SCHEME) else ""
        found = sent.encode("utf-8", "replace")
        # All of them, so that the time does not tell which one is near.
        if not sum([hmac.compare_digest(found, token.encode()) for token in self.values]):
            message = "this server needs a token; send the header `Authorization: Bearer TOKEN`"
            raise ServingError(message, grpc.StatusCode.UNAUTHENTICATED)

    def reload(self) -> None:
        """Reads the file again. Raises ConfigError or OSError if it has no tokens, and keeps those of before."""
        if self.path is not None:
            self.values = _tokens_in(self.path.read_text(encoding="utf-8", errors="replace"), str(self.path))


@dataclass(frozen=True)
class AccessOptions:
    """Options of access control."""

    # Host names that clients may use for the server, and whose web pages may send requests; `*` for any.
    allowed_hosts: tuple[str, ...] = ()
    tokens: Tokens | None = None  # None for no authentication


class WrongTokens:
    """Compares tokens, and refuses an address that has sent too many wrong ones; thread-safe.

    Args:
        tokens: the tokens; None for no authentication.
        most: wrong tokens of an address in each period; a request without a token is none.
        seconds: length of a period.
        clock: current time in seconds.
    """

    def __init__(
        self,
        tokens: Tokens | None,
        most: int = 100,
        seconds: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tokens = tokens
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        # Address -> start of its period, and its wrong tokens.
        self._seen: dict[str, tuple[float, int]] = {}

    def check(self, client: str, authorization: str) -> None:
        """Raises ServingError: 401 for a wrong token, 429 for any token of an address that has sent too many."""
        if self._tokens is None:
            return
        now = self._clock()
        with self._lock:
            since, count = self._period(client, now)
        if count >= self._most:
            rule = f"this address has sent {count} wrong tokens; try again in {self._seconds - now + since:.0f} seconds"
            raise ServingError(rule, grpc.StatusCode.RESOURCE_EXHAUSTED)
        try:
            self._tokens.check(authorization)
        except ServingError:
            if authorization:
                with self._lock:
                    # Other requests of the address may have been compared in the meantime.
                    since, count = self._period(client, now)
                    self._seen.pop(client, None)
                    self._seen[client] = (since, count + 1)
                    if len(self._seen) > _MAX_ADDRESSES:
                        del self._seen[next(iter(self._seen))]
            raise

    def _period(self, client: str, now: float) -> tuple[float, int]:
        """Returns the start of the period of an address, and its wrong tokens."""
        since, count = self._seen.get(client, (now, 0))
        return (now, 0) if now - since >= self._seconds else (since, count)


def read_tokens(path: Path | None, environment: Mapping[str, str] = os.environ) -> Tokens | None:
    """Returns the bearer tokens of a file, one on each line, or that of `BERT_TF_SERVE_TOKEN` without a path.

    Returns None if the variable is not set either. Raises ConfigError if there is no token, or one that is not
    printable ASCII without spaces.
    """
    if path is not None:
        tokens = Tokens((), path)
        tokens.reload()
        return tokens
    if TOKEN_VARIABLE not in environment:
        return None
    return Tokens(_tokens_in(environment[TOKEN_VARIABLE], f"the variable {TOKEN_VARIABLE}"))


def _tokens_in(text: str, source: str) -> tuple[str, ...]:
    tokens = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not tokens or not all("!" <= character <= "~" for token in tokens for character in token):
        raise ConfigError(
            f"{source}: a token must be printable ASCII without spaces, one on a line. "
            "Make one with `openssl rand -hex 32`."
        )
    return tokens


def is_loopback(host: str) -> bool:
    """Returns True if an address or name is reachable only from this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class TlsFiles:
    """A certificate and its key, in PEM. Raises ConfigError if they cannot be parsed or do not match."""

    certificate: Path  # followed by the certificates of the intermediate authorities
    key: Path  # without a passphrase
    client_authority: Path | None = None  # authority of the certificates that clients must have; None for none

    def __post_init__(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            # An empty passphrase, because without one OpenSSL would prompt on the terminal.
            context.load_cert_chain(self.certificate, self.key, password="")
        except ssl.SSLError as error:
            raise ConfigError(
                f"{self.certificate} and {self.key} must be a certificate and its key without a passphrase, in PEM. "
                f"Received: {error}"
            ) from error
        if self.client_authority is not None:
            try:
                context.load_verify_locations(self.client_authority)
            except ssl.SSLError as error:
                raise ConfigError(
                    f"{self.client_authority} must hold certificates of authorities in PEM. Received: {error}"
                ) from error

    def http_options(self) -> dict[str, Any]:
        """Returns the options of uvicorn."""
        options: dict[str, Any] = {"ssl_certfile": self.certificate, "ssl_keyfile": self.key}
        if self.client_authority is not None:
            options |= {"ssl_ca_certs": str(self.client_authority), "ssl_cert_reqs": ssl.CERT_REQUIRED}
        return options

    def grpc_credentials(self) -> grpc.ServerCredentials:
        """Returns the credentials of a gRPC server, which reads renewed files at the next connection."""
        first = self._configuration()
        latest = [first[0]]

        def renewed() -> grpc.ServerCertificateConfiguration | None:
            try:
                # Of a certificate that is half renewed, the former pair is kept.
                content, configuration = dataclasses.replace(self)._configuration()
            except (OSError, ConfigError):
                return None
            if content == latest[0]:
                return None
            latest[0] = content
            return configuration

        return grpc.dynamic_ssl_server_credentials(
            first[1], renewed, require_client_authentication=self.client_authority is not None
        )

    def _configuration(self) -> tuple[tuple[bytes | None, ...], grpc.ServerCertificateConfiguration]:
        pair = self.key.read_bytes(), self.certificate.read_bytes()
        authority = None if self.client_authority is None else self.client_authority.read_bytes()
        return (*pair, authority), grpc.ssl_server_certificate_configuration([pair], authority)

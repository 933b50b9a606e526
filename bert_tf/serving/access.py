"""Access options of both interfaces: host names, the bearer token, and TLS."""

from __future__ import annotations

import hmac
import ipaddress
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import grpc

from bert_tf.config import ConfigError
from bert_tf.serving.errors import ServingError

TOKEN_VARIABLE = "BERT_TF_SERVE_TOKEN"
_SCHEME = "bearer "


@dataclass(frozen=True)
class AccessOptions:
    """Options of access control."""

    # Host names that clients may use for the server, and whose web pages may send requests; `*` for any.
    allowed_hosts: tuple[str, ...] = ()
    token: str | None = None  # required as `Authorization: Bearer TOKEN`; None for no authentication


def read_token(path: Path | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """Returns the bearer token of a file, or of `BERT_TF_SERVE_TOKEN` without a path; None if the variable is not set.

    Raises ConfigError if the token is empty, or is not printable ASCII without spaces.
    """
    if path is None and TOKEN_VARIABLE not in environment:
        return None
    source = str(path) if path else f"the variable {TOKEN_VARIABLE}"
    token = (path.read_text(encoding="utf-8", errors="replace") if path else environment[TOKEN_VARIABLE]).strip()
    if not token or not all("!" <= character <= "~" for character in token):
        raise ConfigError(
            f"{source}: a token must be printable ASCII without spaces, on one line. "
            "Make one with `openssl rand -hex 32`."
        )
    return token


def is_loopback(host: str) -> bool:
    """Returns True if an address or name is reachable only from this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_token(authorization: str, token: str | None) -> None:
    """Compares the value of an Authorization header with the token. Raises ServingError (401) if they differ."""
    if token is None:
        return
    sent = authorization[len(_SCHEME) :].strip() if authorization.lower().startswith(_SCHEME) else ""
    if not hmac.compare_digest(sent.encode("utf-8", "replace"), token.encode()):
        message = "this server needs a token; send the header `Authorization: Bearer TOKEN`"
        raise ServingError(message, grpc.StatusCode.UNAUTHENTICATED)


@dataclass(frozen=True)
class TlsFiles:
    """A certificate and its key, in PEM. Raises ConfigError if they cannot be parsed or do not match."""

    certificate: Path  # followed by the certificates of the intermediate authorities
    key: Path  # without a passphrase

    def __post_init__(self) -> None:
        try:
            # An empty passphrase, because without one OpenSSL would prompt on the terminal.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key, password="")
        except ssl.SSLError as error:
            raise ConfigError(
                f"{self.certificate} and {self.key} must be a certificate and its key without a passphrase, in PEM. "
                f"Received: {error}"
            ) from error

    def grpc_credentials(self) -> grpc.ServerCredentials:
        """Returns the credentials of a gRPC server."""
        return grpc.ssl_server_credentials([(self.key.read_bytes(), self.certificate.read_bytes())])

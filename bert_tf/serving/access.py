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
    """Options of access control.

    Args:
        allowed_hosts: host names that clients may use for the server, and whose web pages may send requests; `*` for
            any.
        token: token that requests must have as `Authorization: Bearer TOKEN`; None for no authentication.
    """

    allowed_hosts: tuple[str, ...] = ()
    token: str | None = None


def read_token(path: Path | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """Returns the bearer token from a file or from the environment; None if absent.

    Args:
        path: file that contains only the token; None for the variable `BERT_TF_SERVE_TOKEN`.
        environment: variables of the process.

    Raises:
        ConfigError: if the token is empty, or is not printable ASCII without spaces.
        OSError: if the file cannot be read.
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
    """A certificate and its key.

    Args:
        certificate: PEM file with the certificate, followed by those of the intermediate authorities.
        key: PEM file with the private key, without a passphrase.

    Raises:
        ConfigError: if they are not PEM files, or the key does not match the certificate.
        OSError: if they cannot be read.
    """

    certificate: Path
    key: Path

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

"""TLS certificate and key of a server."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc

from bert_tf.config import ConfigError


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

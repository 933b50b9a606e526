"""Sockets of servers."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def bound_socket(host: str, port: int, *, shared: bool = False) -> Iterator[socket.socket]:
    """Yields a socket that is bound to an address; `shared` lets other processes of the user bind it too."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as bound:
        if not shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            if shared and port:
                # Binding a shared port would succeed even if another server listens on it, so this checks it first.
                with socket.socket(bound.family) as alone:
                    alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    alone.bind((host, port))
            if shared:
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            bound.bind((host, port))
        except OSError as error:
            hint = "Choose another with --port or --grpc_port (0: a free one), or stop the program that uses this one."
            raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}. {hint}") from error
        yield bound

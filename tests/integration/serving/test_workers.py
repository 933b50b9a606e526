"""A server of several processes, without models."""

from __future__ import annotations

import contextlib
import functools
import socket
from collections.abc import AsyncIterator

import pytest
from starlette.applications import Starlette

from bert_tf.serving.http.connection import BoundedConnection, ConnectionLimits
from bert_tf.serving.http.server import DrainingConfig
from bert_tf.serving.http.workers import Workers


def that_cannot_start() -> Starlette:
    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        raise RuntimeError("no model")
        yield

    app = Starlette(lifespan=lifespan)
    app.state.drain = lambda: None
    return app


def test_a_server_whose_workers_cannot_start_fails() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        http = functools.partial(BoundedConnection, limits=ConnectionLimits())
        config = DrainingConfig(that_cannot_start, factory=True, drain_seconds=0, http=http, workers=2)
        with pytest.raises(OSError, match="no worker could start"):
            Workers(config, listener).run()

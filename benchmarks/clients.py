"""Asynchronous clients for `benchmarks.load` that send overlapping requests over open connections.

Both use the API of TF Serving: REST `:predict` in row form, and gRPC `PredictionService/Predict`.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_OK = 200
_TOO_LONG = 1 << 24


class RequestError(Exception):
    """A request without a successful response. The message is the kind of failure, for counting."""


@dataclass(frozen=True)
class Target:
    """Server and model of the requests.

    Args:
        host: host of the server.
        port: port of the server.
        model: name of the model.
        signature: signature of the model.
        input_name: name of the input for texts.
    """

    host: str
    port: int
    model: str
    signature: str = "serving_default"
    input_name: str = "text"


class Client(ABC):
    """Sends requests, which may overlap.

    Args:
        target: server and model of all requests.
    """

    def __init__(self, target: Target) -> None:
        self.target = target

    @abstractmethod
    async def predict(self, texts: Sequence[str]) -> None:
        """Sends a batch of texts and receives the whole response. Raises RequestError if the request fails."""

    @abstractmethod
    async def close(self) -> None:
        """Closes all connections."""


class RestClient(Client):
    """REST over HTTP/1.1. A connection carries one request at a time; overlapping requests open more connections."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def predict(self, texts: Sequence[str]) -> None:
        """Sends a batch of texts; see `Client.predict`."""
        rows = [{self.target.input_name: text} for text in texts]
        body = json.dumps({"signature_name": self.target.signature, "instances": rows}).encode()
        head = (
            f"POST /v1/models/{self.target.model}:predict HTTP/1.1\r\nHost: {self.target.host}:{self.target.port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        try:
            connection = self._open() or await self._connect()
            try:
                status, stays = await self._exchange(*connection, head.encode() + body)
            except BaseException:
                connection[1].close()
                raise
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            raise RequestError(type(error).__name__) from error
        if stays:
            self._idle.append(connection)
        else:
            connection[1].close()
        if status != _OK:
            raise RequestError(f"HTTP {status}")

    async def close(self) -> None:
        """Closes all connections."""
        for _, writer in self._idle:
            writer.close()
            await writer.wait_closed()
        self._idle.clear()

    def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """Returns the most recently used idle connection that the server has not closed; None if absent."""
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof():
                return reader, writer
            writer.close()
        return None

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self.target.host, self.target.port, limit=_TOO_LONG)

    @staticmethod
    async def _exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> tuple[int, bool]:
        """Sends a request, reads the response, and returns its status and whether the connection stays open."""
        writer.write(request)
        await writer.drain()
        status_line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if "content-length" not in fields:
            raise ValueError(f"a response must have Content-Length. Received: {fields}")
        await reader.readexactly(int(fields["content-length"]))
        return int(status_line.split()[1]), fields.get("connection", "").lower() != "close"


class GrpcClient(Client):
    """gRPC over one unencrypted connection."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        import grpc
        from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

        self._error: Any = grpc.aio.AioRpcError
        self._request: Any = predict_pb2.PredictRequest
        largest = [("grpc.max_receive_message_length", _TOO_LONG)]
        self._channel: Any = grpc.aio.insecure_channel(f"{target.host}:{target.port}", options=largest)
        self._stub: Any = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)

    async def predict(self, texts: Sequence[str]) -> None:
        """Sends a batch of texts; see `Client.predict`."""
        from tensorflow.core.framework import types_pb2

        request = self._request()
        request.model_spec.name, request.model_spec.signature_name = self.target.model, self.target.signature
        tensor = request.inputs[self.target.input_name]
        tensor.dtype = types_pb2.DT_STRING
        tensor.tensor_shape.dim.add(size=len(texts))
        tensor.string_val.extend(text.encode() for text in texts)
        try:
            await self._stub.Predict(request)
        except self._error as error:
            raise RequestError(f"gRPC {error.code().name}") from error

    async def close(self) -> None:
        """Closes the connection."""
        await self._channel.close()


CLIENTS: dict[str, type[Client]] = {"rest": RestClient, "grpc": GrpcClient}

"""Sends hostile requests over REST, gRPC and raw sockets; the requests depend on the seed only."""

from __future__ import annotations

import gzip
import http.client
import json
import random
import shutil
import socket
import struct
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from bert_tf.export.metadata import MODEL_CARD, WARMUP

_METHODS = (
    "PredictionService/Predict",
    "PredictionService/Classify",
    "PredictionService/Regress",
    "PredictionService/MultiInference",
    "PredictionService/GetModelMetadata",
    "ModelService/GetModelStatus",
    "ModelService/HandleReloadConfigRequest",
)
_TIMEOUT_SECONDS = 60
_FIRST_VERSION = 1
# Kinds that move megabytes, sent once in fifty requests.
_HEAVY = (
    *("too large", "many values", "distinct keys", "punctuation", "compressed zeros", "paused body"),
    *("damaged version", "half a version", "whole version"),
    *("copied context", "empty members", "huge warm-up", "deep card", "reset streams"),
)
_HEAVY_SHARE = 0.02
# Connections that are kept open without a complete request.
_MAX_LEFT_OPEN = 1200
_STATUSES = (400, 403, 404, 408, 413, 415, 429, 503)
_CODES = {
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "FAILED_PRECONDITION",
    "RESOURCE_EXHAUSTED",
    "UNIMPLEMENTED",
    "UNAVAILABLE",
}


class HostileClient:
    """Sends hostile requests one after the other: one of each kind, then kinds at random.

    Args:
        host: address of the server.
        rest: port of REST.
        grpc_port: port of gRPC.
        model: name of a model on the server.
        seed: seed of the requests.
        folder: folder of the model's versions; the first is copied, whole or in part, to higher versions.
    """

    def __init__(self, host: str, rest: int, grpc_port: int, model: str, seed: int, folder: Path) -> None:
        self._host, self._rest, self._grpc, self._model, self._folder = host, rest, grpc_port, model, folder
        self._random = random.Random(seed)
        self._channel = grpc.insecure_channel(f"{host}:{grpc_port}")
        self._kinds = {
            "random bytes": self._random_bytes,
            "deep JSON": self._deep,
            "random JSON": self._random_json,
            "no text": self._no_text,
            "ids": self._ids,
            "too large": self._too_large,
            "many values": self._many_values,
            "paths": self._paths,
            "half a body": self._half,
            "no HTTP": self._no_http,
            "fuzzed protobuf": self._fuzzed,
            "tensors": self._tensors,
            "no message": self._no_message,
            "nested lists": self._nested,
            "half a header": self._half_header,
            "foreign page": self._foreign,
            "two lengths": self._two_lengths,
            "distinct keys": self._keys,
            "punctuation": self._punctuation,
            "compressed zeros": self._compressed,
            "paused body": self._paused,
            "damaged version": self._damaged,
            "half a version": self._half_version,
            "whole version": self._whole_version,
            "copied context": self._context,
            "empty members": self._members,
            "huge warm-up": self._warm_up,
            "deep card": self._deep_card,
            "string content": self._content,
            "reset streams": self._resets,
        }
        self._first = self._random.sample(list(self._kinds), len(self._kinds))
        # Closed by the client when newer ones replace them.
        self._left_open: deque[socket.socket] = deque()

    def send(self) -> tuple[str, str, bool]:
        """Sends one request; returns its kind, its outcome, and whether the response has TF Serving's format."""
        kind = self._first.pop() if self._first else self._any()
        return kind, *self._kinds[kind]()

    def _any(self) -> str:
        heavy = self._random.random() < _HEAVY_SHARE
        return self._random.choice(_HEAVY if heavy else [name for name in self._kinds if name not in _HEAVY])

    def _post(
        self, body: bytes, path: str | None = None, method: str = "POST", headers: dict[str, str] | None = None
    ) -> tuple[str, bool]:
        path = path or f"/v1/models/{self._model}:{self._random.choice(['predict', 'classify', 'regress'])}"
        connection = http.client.HTTPConnection(self._host, self._rest, timeout=_TIMEOUT_SECONDS)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            content = response.read()
        except (BrokenPipeError, ConnectionResetError):
            # The server may refuse a body that is too large while it is still being sent.
            return "connection closed", len(body) > 2**20
        finally:
            connection.close()
        try:
            answer = json.loads(content)
        except ValueError:
            return f"{response.status}, no JSON", False
        right = response.status == 200 or (set(answer) == {"error"} and response.status in _STATUSES)
        return str(response.status), right

    def _random_bytes(self) -> tuple[str, bool]:
        return self._post(self._random.randbytes(self._random.randrange(200)))

    def _deep(self) -> tuple[str, bool]:
        depth = self._random.randrange(10, 50000)
        prefix = self._random.choice([b"[", b'{"inputs":', b'{"instances":['])
        return self._post(b'{"instances": ' + prefix * depth + b"]" * self._random.randrange(depth))

    def _value(self, depth: int = 0) -> Any:
        draw = self._random.randrange(11 if depth < 4 else 8)
        few = self._random.randrange(4)
        scalars = [None, True, -1, 2**70, 1e308, "", "\x00\ud800é", {"b64": "//79"}]
        if draw < len(scalars):
            return scalars[draw]
        if draw == 8:
            return {self._random.choice(["text", "b64", "inputs", ""]): self._value(depth + 1) for _ in range(few)}
        return [self._value(depth + 1) for _ in range(few)]

    def _random_json(self) -> tuple[str, bool]:
        keys = ["instances", "inputs", "signature_name", "examples", "context"]
        body = {key: self._value() for key in keys if self._random.random() < 0.4}
        return self._post(json.dumps(body).encode())

    def _no_text(self) -> tuple[str, bool]:
        raw = self._random.randbytes(self._random.randrange(1, 2000))
        encoded = raw.decode("latin-1").encode("unicode_escape").decode()
        text = self._random.choice([json.dumps(raw.decode("latin-1")).encode(), b'"' + raw + b'"', encoded.encode()])
        return self._post(b'{"instances": [' + text + b"]}", f"/v1/models/{self._model}:predict")

    def _ids(self) -> tuple[str, bool]:
        rows, length = self._random.randrange(4), self._random.choice([0, 1, 7, 10000])
        edges = [-(2**31), -1, 0, 1, 2**31 - 1, 2**31, 2**63, 10**30]
        inputs = {
            name: [[self._random.choice(edges) for _ in range(self._random.choice([length, 3]))] for _ in range(rows)]
            for name in ("token_ids", "segment_ids", "padding_mask")
            if self._random.random() < 0.9
        }
        body = {"signature_name": self._random.choice(["ids", "none", "serve_examples"]), "inputs": inputs}
        return self._post(json.dumps(body).encode(), f"/v1/models/{self._model}:predict")

    def _too_large(self) -> tuple[str, bool]:
        size = self._random.choice([2**20, 17 * 2**20])
        return self._post(b'{"instances": ["' + b"a " * (size // 2) + b'"]}', f"/v1/models/{self._model}:predict")

    def _many_values(self) -> tuple[str, bool]:
        value, count = self._random.choice([b"[]", b"0", b'""', b"{}"]), self._random.choice([2**17, 2**22])
        form = self._random.choice([b'{"instances": [%s]}', b'{"inputs": [[%s]]}', b'{"examples": [%s]}'])
        return self._post(form % b",".join([value] * count))

    def _paths(self) -> tuple[str, bool]:
        paths = ["/v1/models/../../etc/passwd", "/v1/models/%2e%2e%2f:predict", "/v1/models", "/etc/passwd", "//"]
        paths += [
            f"/v1/models/{self._model}/versions/{self._random.choice([0, 2**63, 2**70])}",
            "/%00",
            "/" + "a" * 9000,
        ]
        return self._post(b"", self._random.choice(paths), self._random.choice(["GET", "POST", "PUT", "DELETE"]))

    def _half(self) -> tuple[str, bool]:
        head = f"POST /v1/models/{self._model}:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n"
        return self._raw(head.encode() + b'{"instances": ["' + b"a" * self._random.randrange(100))

    def _no_http(self) -> tuple[str, bool]:
        return self._raw(self._random.randbytes(self._random.randrange(1, 500)) + b"\r\n\r\n")

    def _nested(self) -> tuple[str, bool]:
        depth = self._random.choice([8, 9, 32, 33, 64, 65, 254, 255, 900])
        value = "[" * depth + self._random.choice(['"a"', "1", "{}", ""]) + "]" * depth
        return self._post(f'{{"{self._random.choice(["inputs", "instances"])}": {value}}}'.encode())

    def _half_header(self) -> tuple[str, bool]:
        head = f"POST /v1/models/{self._model}:predict HTTP/1.1\r\nHost: localhost\r\nX: "
        for _ in range(self._random.randrange(100)):
            self._leave_open(head[: self._random.randrange(len(head))].encode())
        return "left open by us", True

    def _paused(self) -> tuple[str, bool]:
        size = 16 * 2**20
        head = f"POST /v1/models/{self._model}:predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n"
        self._leave_open(head.encode() + b" " * (size - 1))
        return "left open by us", True

    def _leave_open(self, content: bytes) -> None:
        while len(self._left_open) >= _MAX_LEFT_OPEN:
            self._left_open.popleft().close()
        connection = socket.create_connection((self._host, self._rest), _TIMEOUT_SECONDS)
        try:
            connection.sendall(content)
        except (BrokenPipeError, ConnectionResetError):
            # The server may close a connection to make room.
            connection.close()
            return
        self._left_open.append(connection)

    def _foreign(self) -> tuple[str, bool]:
        headers = self._random.choice(
            [{"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Origin": "null"}]
        )
        outcome, right = self._post(b'{"instances": ["the cat"]}', headers=headers)
        return outcome, right and outcome == "403"

    def _two_lengths(self) -> tuple[str, bool]:
        headers = {"Transfer-Encoding": "chunked", "Content-Length": "5"}
        outcome, right = self._post(b"0\r\n\r\n", headers=headers)
        return outcome, right and outcome == "400"

    def _keys(self) -> tuple[str, bool]:
        count = self._random.choice([2**16, 2**18, 2**20])
        keys = b",".join(b'"%x":1' % number for number in range(count))
        return self._post(self._random.choice([b'{"inputs": {%s}}', b'{"examples": [{%s}]}']) % keys)

    def _punctuation(self) -> tuple[str, bool]:
        text = b"!?" * self._random.choice([2**18, 2**19, 7 * 2**20])
        return self._post(b'{"instances": ["%s"]}' % text, f"/v1/models/{self._model}:predict")

    def _compressed(self) -> tuple[str, bool]:
        body = gzip.compress(b" " * self._random.choice([2**20, 2**28]), mtime=0)
        return self._post(body, headers={"Content-Encoding": "gzip"})

    def _context(self) -> tuple[str, bool]:
        text, rows = b"x" * self._random.choice([100, 2**20, 15 * 2**20]), b",".join([b'{"a": 1}'] * 128)
        return self._post(b'{"context": {"text": "%s"}, "examples": [%s]}' % (text, rows))

    def _members(self) -> tuple[str, bool]:
        empty, count = gzip.compress(b"", mtime=0), self._random.choice([10, 10_000, 800_000])
        return self._post(empty * count + gzip.compress(b"{}", mtime=0), headers={"Content-Encoding": "gzip"})

    def _content(self) -> tuple[str, bool]:
        request = self._request()
        tensor = request.inputs["text"]
        tensor.string_val.clear()
        tensor.tensor_content = self._random.choice([b"\x02\x03abxyz", b"\xff\xff\xff\xff\x7f", b"\x02", b"\x00" * 9])
        if self._random.random() < 0.3:
            tensor.int_val.append(1)
        return self._call("PredictionService/Predict", request.SerializeToString())

    def _warm_up(self) -> tuple[str, bool]:
        folder = self._new_version()
        shutil.copytree(self._folder / str(_FIRST_VERSION), folder, dirs_exist_ok=True)
        (folder / WARMUP).parent.mkdir(exist_ok=True)
        # A header of a valid checksum: a record of 2^50 bytes.
        (folder / WARMUP).write_bytes(bytes.fromhex("00000000000004001d703049") + b"x")
        return "written by us", True

    def _deep_card(self) -> tuple[str, bool]:
        folder = self._new_version()
        (folder / MODEL_CARD).parent.mkdir()
        (folder / MODEL_CARD).write_text("[" * 100_000)
        shutil.copytree(
            self._folder / str(_FIRST_VERSION), folder, dirs_exist_ok=True, ignore=lambda *_: [MODEL_CARD.name]
        )
        return "written by us", True

    def _damaged(self) -> tuple[str, bool]:
        (self._new_version() / "saved_model.pb").write_bytes(self._random.randbytes(1000))
        return "written by us", True

    def _half_version(self) -> tuple[str, bool]:
        shutil.copy(self._folder / str(_FIRST_VERSION) / "saved_model.pb", self._new_version())
        return "written by us", True

    def _whole_version(self) -> tuple[str, bool]:
        # Not atomic: the files are copied in place.
        shutil.copytree(self._folder / str(_FIRST_VERSION), self._new_version(), dirs_exist_ok=True)
        return "written by us", True

    def _new_version(self) -> Path:
        """Returns an empty folder for a new highest version; all added versions but the latest are deleted."""
        versions = sorted(int(path.name) for path in self._folder.iterdir())[1:]
        for number in versions[:-1]:
            shutil.rmtree(self._folder / str(number))
        folder = self._folder / str(max(versions, default=_FIRST_VERSION) + 1)
        folder.mkdir()
        return folder

    def _raw(self, content: bytes) -> tuple[str, bool]:
        with socket.create_connection((self._host, self._rest), _TIMEOUT_SECONDS) as connection:
            connection.sendall(content)
        return "closed by us", True

    def _resets(self) -> tuple[str, bool]:
        """Opens streams and resets each at once, as in the rapid reset attack on HTTP/2."""
        fields = {
            ":method": "POST",
            ":path": f"/tensorflow.serving.{_METHODS[0]}",
            ":scheme": "http",
            ":authority": "x",
        }
        fields |= {"content-type": "application/grpc", "te": "trailers"}
        # Literal fields without indexing, of less than 127 bytes (RFC 7541, section 6.2.2).
        block = b"".join(
            b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
            for name, value in fields.items()
        )
        content = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", _frame(4, 0, 0, b"")]
        for number in range(1, 2 * self._random.choice([1, 100, 3000]), 2):
            content += [_frame(1, 4, number, block), _frame(3, 0, number, bytes(4))]
        with socket.create_connection((self._host, self._grpc), _TIMEOUT_SECONDS) as connection:
            try:
                connection.sendall(b"".join(content))
            except (BrokenPipeError, ConnectionResetError):
                return "connection closed", True
        return "closed by us", True

    def _call(self, method: str, message: bytes) -> tuple[str, bool]:
        try:
            self._channel.unary_unary(f"/tensorflow.serving.{method}")(message, timeout=_TIMEOUT_SECONDS)
        except grpc.RpcError as error:
            # grpc reports INTERNAL for a message that it cannot parse, in TF Serving too.
            unread = error.code() == grpc.StatusCode.INTERNAL and "deserializ" in (error.details() or "")
            return error.code().name, unread or error.code().name in _CODES
        return "OK", True

    def _no_message(self) -> tuple[str, bool]:
        return self._open(self._random.choice(_METHODS))

    def _open(self, method: str) -> tuple[str, bool]:
        ended = threading.Event()

        def never() -> Iterator[bytes]:
            ended.wait()
            yield from ()

        call = self._channel.stream_unary(f"/tensorflow.serving.{method}").future(never())
        call.add_done_callback(lambda _: ended.set())
        return "left open by us", True

    def _request(self) -> predict_pb2.PredictRequest:
        request = predict_pb2.PredictRequest()
        request.model_spec.name = self._model
        request.inputs["text"].CopyFrom(tf.make_tensor_proto(["the cat", "sat"]))
        return request

    def _fuzzed(self) -> tuple[str, bool]:
        message = bytearray(self._request().SerializeToString())
        for _ in range(self._random.randrange(1, 8)):
            message[self._random.randrange(len(message))] = self._random.randrange(256)
        cut = self._random.choice([len(message), self._random.randrange(len(message))])
        return self._call(self._random.choice(_METHODS), bytes(message[:cut]))

    def _tensors(self) -> tuple[str, bool]:
        request = self._request()
        tensor = request.inputs["text"]
        tensor.dtype = self._random.choice([0, 1, 3, 7, 7, 7, 20, 99])
        tensor.tensor_shape.unknown_rank = self._random.random() < 0.1
        for _ in range(self._random.randrange(3)):
            tensor.tensor_shape.dim.add(size=self._random.choice([-1, 0, 1, 2**20, 2**40, 2**62]))
        request.model_spec.signature_name = self._random.choice(["", "", "ids", "none", "classify"])
        return self._call("PredictionService/Predict", request.SerializeToString())


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    """Returns a frame of HTTP/2."""
    return struct.pack(">I", len(content))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + content

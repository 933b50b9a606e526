"""A client for TF Serving and for our own server: REST with the standard library only, and gRPC.

Both give the same answers, row by row, in plain Python: strings, whole numbers, and floats with the digits of a
float32. What is asked changes nothing on the server, so requests that a server could not take (no connection,
UNAVAILABLE) are sent again, each time after a longer pause; what it refused is not.
"""

from __future__ import annotations

import http.client
import json
import random
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, unquote

T = TypeVar("T")

_METHOD = ":predict"
# Canonical codes that an HTTP status of TF Serving stands for, where it stands for one.
_CODES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_UNAVAILABLE = "UNAVAILABLE"
_GRPC = re.compile(
    r"grpcs?://(?P<server>[^/]+)/(?P<name>[^/:]+)(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"
)
_FIRST_PAUSE_SECONDS = 0.1


class PredictError(RuntimeError):
    """The server refused a request.

    Args:
        message: what the server said.
        status: its HTTP status; None over gRPC.
        code: the canonical code, for example `INVALID_ARGUMENT`; `UNKNOWN` for a status that stands for none.
    """

    def __init__(self, message: str, status: int | None = None, code: str | None = None) -> None:
        self.status = status
        self.code = code or _CODES.get(status or 0, "UNKNOWN")
        super().__init__(f"the server answered {status or self.code}: {message}")


class ModelClient(Protocol):
    """What can be asked of a served model; `connect` gives one."""

    def predict(self, instances: Sequence[Any], signature_name: str | None = None) -> list[Any]:
        """Asks for predictions.

        Args:
            instances: one value a row, or one dictionary of inputs a row where the signature has several.
            signature_name: `serving_default` where None.

        Returns:
            One prediction a row: a dictionary of outputs, or the bare value where there is one output.

        Raises:
            PredictError: when the server refuses the request, or its answer is not what a model server says.
            ConnectionError: when no server answers.
        """

    def classify(self, examples: Sequence[Mapping[str, Any]], signature_name: str | None = None) -> list[list[Any]]:
        """Asks for the classes of examples, each a dictionary of features: `[label, score]` for each class.

        Raises:
            PredictError, ConnectionError: as `predict`.
        """

    def regress(self, examples: Sequence[Mapping[str, Any]], signature_name: str | None = None) -> list[float]:
        """Asks for a number for each example. Raises as `predict`."""

    def status(self) -> list[dict[str, Any]]:
        """Returns `version`, `state` and `error` of each version, the highest first. Raises as `predict`."""

    def metadata(self) -> dict[str, Any]:
        """Returns the model's signatures as TF Serving's REST describes them. Raises as `predict`."""


def connect(
    url: str,
    *,
    timeout: float = 60.0,
    retries: int = 3,
    token: str | None = None,
    certificate: str | Path | None = None,
) -> ModelClient:
    """Returns a client of a model.

    Args:
        url: `http://HOST:PORT/v1/models/NAME` for REST or `grpc://HOST:PORT/NAME` for gRPC, `https` and `grpcs` for
            TLS; with `/versions/N` or `/labels/L` where it should not be the highest version.
        timeout: seconds without an answer.
        retries: how often a request that the server could not take is sent again.
        token: that the server demands; sent as `Authorization: Bearer TOKEN`.
        certificate: PEM file of the server's certificate, or of the authority that signed it; None for the
            authorities that this machine trusts.

    Raises:
        ValueError: for another URL.
        OSError: where the certificate cannot be read.
    """
    if url.startswith(("http://", "https://")):
        return RestClient(url, timeout, retries, token, certificate)
    if (found := _GRPC.fullmatch(url)) is not None:
        from bert_tf.client.grpc import GrpcClient

        version, label = found["version"], found["label"]
        return GrpcClient(
            found["server"],
            unquote(found["name"]),
            int(version) if version else None,
            unquote(label) if label else None,
            timeout,
            retries,
            token,
            certificate,
            secure=url.startswith("grpcs://"),
        )
    raise ValueError(f"a model's URL must be http://HOST:PORT/v1/models/NAME or grpc://HOST:PORT/NAME. Received: {url}")


def predict(url: str, instances: Sequence[Any], signature_name: str | None = None, timeout: float = 60.0) -> list[Any]:
    """Asks a served model once, without sending anything again.

    Args:
        url: as `connect`.
        instances: one value a row, or one dictionary of inputs a row where the signature has several.
        signature_name: `serving_default` where None.
        timeout: seconds without an answer.

    Returns:
        One prediction a row: a dictionary of outputs, or the bare value where there is one output.

    Raises:
        PredictError: when the server refuses the request, or its answer is not what a model server says.
        ConnectionError: when no server answers.
    """
    return connect(url, timeout=timeout, retries=0).predict(instances, signature_name)


def again(ask: Callable[[], T], retries: int) -> T:
    """Asks, and asks again while the server cannot be reached or cannot take it.

    Args:
        ask: raises ConnectionError, or PredictError with the code `UNAVAILABLE`, where it may be asked again.
        retries: how often at most; each pause is about twice the one before.

    Raises:
        PredictError, ConnectionError: the last one.
    """
    for attempt in range(retries):
        try:
            return ask()
        except ConnectionError:
            pass
        except PredictError as error:
            if error.code != _UNAVAILABLE:
                raise
        # Clients that were turned away together should not come back together.
        time.sleep(_FIRST_PAUSE_SECONDS * 2**attempt * random.uniform(0.5, 1.5))
    return ask()


class RestClient:
    """Asks over REST.

    Args:
        url: `http://HOST:PORT/v1/models/NAME`, with `/versions/N` or `/labels/L` where wanted.
        timeout: seconds without an answer.
        retries: how often a request that the server could not take is sent again.
        token: that the server demands.
        certificate: PEM file of an authority to trust; None for those of this machine.
    """

    def __init__(
        self,
        url: str,
        timeout: float = 60.0,
        retries: int = 3,
        token: str | None = None,
        certificate: str | Path | None = None,
    ) -> None:
        self._url = quote(url.removesuffix(_METHOD), safe=":/%")
        self._timeout = timeout
        self._retries = retries
        self._headers = {"Content-Type": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._context = ssl.create_default_context(cafile=certificate) if url.startswith("https://") else None

    def predict(self, instances: Sequence[Any], signature_name: str | None = None) -> list[Any]:
        """Asks for predictions, as `ModelClient.predict` says."""
        return self._asked("predict", {"instances": list(instances)}, signature_name, "predictions")

    def classify(self, examples: Sequence[Mapping[str, Any]], signature_name: str | None = None) -> list[list[Any]]:
        """Asks for classes, as `ModelClient.classify` says."""
        return self._asked("classify", {"examples": list(examples)}, signature_name, "results")

    def regress(self, examples: Sequence[Mapping[str, Any]], signature_name: str | None = None) -> list[float]:
        """Asks for numbers, as `ModelClient.regress` says."""
        return self._asked("regress", {"examples": list(examples)}, signature_name, "results")

    def status(self) -> list[dict[str, Any]]:
        """Returns the states of the versions, as `ModelClient.status` says."""
        return [
            {
                "version": int(state["version"]),
                "state": state["state"],
                "error": state.get("status", {}).get("error_message", ""),
            }
            for state in self._answer("", None, "model_version_status")
        ]

    def metadata(self) -> dict[str, Any]:
        """Returns the signatures, as `ModelClient.metadata` says."""
        return self._answer("/metadata", None, "metadata")["signature_def"]["signature_def"]

    def _asked(self, verb: str, body: dict[str, Any], signature_name: str | None, key: str) -> Any:
        if signature_name is not None:
            body["signature_name"] = signature_name
        return self._answer(f":{verb}", json.dumps(body).encode(), key)

    def _answer(self, suffix: str, body: bytes | None, key: str) -> Any:
        return again(lambda: self._once(suffix, body, key), self._retries)

    def _once(self, suffix: str, body: bytes | None, key: str) -> Any:
        request = urllib.request.Request(self._url + suffix, body, self._headers)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout, context=self._context) as response:
                status, content = response.status, response.read()
        except urllib.error.HTTPError as error:
            raise PredictError(_error_message(error.read()), error.code) from error
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            reason = getattr(error, "reason", error)
            raise ConnectionError(f"no model server answers at {self._url}: {reason}") from error
        try:
            return json.loads(content)[key]
        except (ValueError, KeyError, TypeError) as error:
            raise PredictError(f"not an answer of a model server: {content[:200]!r}", status) from error


def _error_message(content: bytes) -> str:
    try:
        return str(json.loads(content)["error"])
    except (ValueError, KeyError, TypeError):
        return content[:200].decode("utf-8", "replace")

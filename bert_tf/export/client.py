"""A client for TF Serving's REST predict, and for our own server; the standard library only."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

_METHOD = ":predict"


class PredictError(RuntimeError):
    """The server refused a request.

    Args:
        message: what the server said.
        status: its HTTP status.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(f"the server answered {status}: {message}")
        self.status = status


def predict(url: str, instances: Sequence[Any], signature_name: str | None = None, timeout: float = 60.0) -> list[Any]:
    """Asks a served model.

    Args:
        url: of the model, `http://HOST:PORT/v1/models/NAME` or with `/versions/N`.
        instances: one value a row, or one dictionary of inputs a row where the signature has several.
        signature_name: `serving_default` where None.
        timeout: seconds without an answer.

    Returns:
        One prediction a row: a dictionary of outputs, or the bare value where there is one output.

    Raises:
        PredictError: when the server refuses the request, or its answer is not what a model server says.
        ConnectionError: when no server answers.
    """
    body: dict[str, Any] = {"instances": list(instances)}
    if signature_name is not None:
        body["signature_name"] = signature_name
    request = urllib.request.Request(
        url.removesuffix(_METHOD) + _METHOD,
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            status, content = response.status, response.read()
    except urllib.error.HTTPError as error:
        raise PredictError(_error_message(error.read()), error.code) from error
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        raise ConnectionError(f"no model server answers at {url}: {getattr(error, 'reason', error)}") from error
    try:
        predictions = json.loads(content)["predictions"]
    except (ValueError, KeyError, TypeError) as error:
        raise PredictError(f"not an answer of a model server: {content[:200]!r}", status) from error
    return predictions


def _error_message(content: bytes) -> str:
    try:
        return str(json.loads(content)["error"])
    except (ValueError, KeyError, TypeError):
        return content[:200].decode("utf-8", "replace")

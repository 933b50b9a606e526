"""Protocol, errors and retries of the clients."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

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

"""The client retries only requests that may be retried; REST and gRPC return the same rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from bert_tf.client import PredictError, base, connect
from bert_tf.client.base import retry
from bert_tf.client.grpc import GrpcClient
from bert_tf.client.rest import RestClient


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses between requests, recorded instead of slept."""
    made: list[float] = []
    monkeypatch.setattr(base.time, "sleep", made.append)
    return made


def failing(*errors: Exception) -> Callable[[], str]:
    waiting = list(errors)

    def request() -> str:
        if waiting:
            raise waiting.pop(0)
        return "answer"

    return request


GONE, BUSY, WRONG = ConnectionError("gone"), PredictError("busy", 503), PredictError("wrong", 400)


@pytest.mark.parametrize("errors", [(), (GONE,), (BUSY,), (GONE, BUSY, GONE)])
def test_temporary_errors_are_retried(errors: tuple[Exception, ...], pauses: list[float]) -> None:
    assert retry(failing(*errors), 3) == "answer"
    assert len(pauses) == len(errors)
    assert all(later > 0.6 * sooner for sooner, later in itertools.pairwise(pauses))


@pytest.mark.parametrize(
    ("errors", "raised", "attempts"),
    [((WRONG,), WRONG, 1), ((GONE, WRONG), WRONG, 2), ((GONE,) * 4, GONE, 4), ((BUSY,) * 4, BUSY, 4)],
)
def test_other_errors_are_not_retried(
    errors: tuple[Exception, ...], raised: Exception, attempts: int, pauses: list[float]
) -> None:
    with pytest.raises(type(raised)) as found:
        retry(failing(*errors), 3)
    assert found.value is raised
    assert len(pauses) == attempts - 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PredictError("x", 404), "NOT_FOUND"),
        (PredictError("x", 418), "UNKNOWN"),
        (PredictError("x", code="FAILED_PRECONDITION"), "FAILED_PRECONDITION"),
    ],
)
def test_errors_have_a_code(error: PredictError, code: str) -> None:
    assert error.code == code


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("http://h:1/v1/models/m", RestClient),
        ("https://h/v1/models/m/versions/2:predict", RestClient),
        ("grpc://h:1/m", GrpcClient),
        ("grpc://h:1/m/versions/3", GrpcClient),
        ("grpc://h:1/m/labels/stable", GrpcClient),
    ],
)
def test_the_scheme_chooses_the_client(url: str, kind: type) -> None:
    assert isinstance(connect(url), kind)


@pytest.mark.parametrize("url", ["h:1", "grpc://h:1", "grpc://h:1/m/versions/x", "ftp://h/m"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="a model's URL must be http://"):
        connect(url)

"""Compares the files of `saved_models/` with TF Serving's message definitions, and the examples with our models."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from bert_tf.serving.http.app import RestOptions, create_app
from bert_tf.serving.models.versions import ServedModel
from bert_tf.serving.server import ServerOptions, loaded_service
from tests.support.paths import REPOSITORY
from tests.support.serving.example_requests import EXAMPLES

SAVED_MODELS = REPOSITORY / "saved_models"


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(set(EXAMPLES.values())))
def test_examples_are_answered(kind: str, exported: Callable[[str], Path]) -> None:
    options = ServerOptions(poll_seconds=0, warm_up=False)
    with loaded_service([ServedModel(kind, exported(kind).parent)], options) as service:
        client = TestClient(create_app(service, RestOptions()), base_url="http://localhost")
        for name in (name for name, of_kind in EXAMPLES.items() if of_kind == kind):
            body = (SAVED_MODELS / "examples" / name).read_bytes()
            answer = client.post(f"/v1/models/{kind}:predict", content=body)
            assert answer.status_code == 200, answer.text
            assert ("predictions" in answer.json()) == ("instances" in json.loads(body))

"""Requests from web pages of other sites are rejected, and a configured token is required."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from starlette.testclient import TestClient

from bert_tf.client import PredictError, connect
from bert_tf.serving.access import AccessOptions, TlsFiles
from bert_tf.serving.grpc.server import GrpcOptions, GrpcServer
from bert_tf.serving.http.app import RestOptions, create_app
from bert_tf.serving.service import Service

TOKEN = "correct-horse"


@pytest.fixture(scope="module")
def guarded(service: Service) -> TestClient:
    return TestClient(create_app(service, RestOptions(access=AccessOptions(token=TOKEN))), base_url="http://localhost")


@pytest.mark.parametrize("sent", ["", "Bearer", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", TOKEN, "Bearer \xff"])
def test_missing_token_is_refused(guarded: TestClient, sent: str) -> None:
    headers = {b"authorization": sent.encode("latin-1")}
    for path in ("/v1/models/classifier", "/models", "/models/classifier", "/monitoring/prometheus/metrics"):
        answer = guarded.get(path, headers=headers)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert set(answer.json()) == {"error"}


def test_token_is_accepted_and_open_paths_need_none(guarded: TestClient) -> None:
    headers = {"Authorization": f"bearer {TOKEN}"}
    body = json.dumps({"instances": ["a"]})
    assert guarded.post("/v1/models/classifier:predict", content=body, headers=headers).status_code == 200
    assert [guarded.get(path).status_code for path in ("/", "/livez", "/readyz")] == [200] * 3


def test_every_response_has_security_headers(rest: TestClient) -> None:
    for answer in (rest.get("/models"), rest.get("/nothing"), rest.get("/", headers={"host": "evil.example"})):
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    page = rest.get("/")
    policy = page.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert policy.count("'sha256-") == page.text.count("<script>") + page.text.count("<style>") == 2
    assert not re.search(r'style="|(?:src|href)="(?!data:|/)', page.text)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def files(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate of localhost, its key, and the authority that signed it."""
    folder = tmp_path_factory.mktemp("tls")
    issued = authority.issue_cert("localhost", "127.0.0.1")
    authority.cert_pem.write_to_path(str(folder / "authority.pem"))
    issued.private_key_pem.write_to_path(str(folder / "key.pem"))
    issued.cert_chain_pems[0].write_to_path(str(folder / "certificate.pem"))
    return folder


@pytest.fixture(scope="module")
def addresses(service: Service, files: Path, listening: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    """URLs of a model over TLS."""
    tls = TlsFiles(files / "certificate.pem", files / "key.pem")
    server = GrpcServer(service, GrpcOptions(token=TOKEN))
    port = server.add_port("127.0.0.1:0", tls.grpc_credentials())
    server.start()
    app = create_app(service, RestOptions(access=AccessOptions(token=TOKEN)))
    with listening(app, ssl_certfile=tls.certificate, ssl_keyfile=tls.key) as address:
        yield f"{address.replace('http:', 'https:')}/v1/models/classifier", f"grpcs://localhost:{port}/classifier"
    server.stop(None)


def test_clients_use_tls_and_the_token(addresses: tuple[str, str], files: Path) -> None:
    for url in addresses:
        client = connect(url, token=TOKEN, certificate=files / "authority.pem", retries=0)
        assert client.predict(["the cat"])[0]["label"]
        with pytest.raises(PredictError, match="needs a token") as refused:
            connect(url, token="wrong", certificate=files / "authority.pem", retries=0).status()
        assert refused.value.code == grpc.StatusCode.UNAUTHENTICATED.name
        with pytest.raises(ConnectionError):
            # This machine does not trust the certificate authority.
            connect(url, token=TOKEN, retries=0, timeout=10).status()

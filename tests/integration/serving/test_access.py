"""Requests from web pages of other sites are rejected, and a configured token is required."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import re
import shutil
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from starlette.testclient import TestClient

from bert_tf.client import PredictError, connect
from bert_tf.serving.access import AccessOptions, TlsFiles, Tokens
from bert_tf.serving.grpc.server import GrpcOptions, GrpcServer
from bert_tf.serving.http.app import RestOptions, create_app
from bert_tf.serving.http.server import DrainingConfig, DrainingServer
from bert_tf.serving.server import ServerOptions, _reread
from bert_tf.serving.service import Service

TOKEN = "correct-horse"


@pytest.fixture(scope="module")
def guarded(service: Service) -> TestClient:
    return TestClient(
        create_app(service, RestOptions(access=AccessOptions(tokens=Tokens((TOKEN,))))), base_url="http://localhost"
    )


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
    own = authority.issue_cert("ada@example.org")
    own.private_key_pem.write_to_path(str(folder / "own_key.pem"))
    own.cert_chain_pems[0].write_to_path(str(folder / "own.pem"))
    return folder


@pytest.fixture(scope="module")
def addresses(service: Service, files: Path, listening: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    """URLs of a model over TLS."""
    tls = TlsFiles(files / "certificate.pem", files / "key.pem")
    server = GrpcServer(service, GrpcOptions(tokens=Tokens((TOKEN,))))
    port = server.add_port("127.0.0.1:0", tls.grpc_credentials())
    server.start()
    app = create_app(service, RestOptions(access=AccessOptions(tokens=Tokens((TOKEN,)))))
    with listening(app, **tls.http_options()) as address:
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


def test_clients_need_a_certificate_of_the_authority(
    service: Service, files: Path, listening: Callable[..., Any]
) -> None:
    tls = TlsFiles(files / "certificate.pem", files / "key.pem", files / "authority.pem")
    server = GrpcServer(service, GrpcOptions())
    port = server.add_port("127.0.0.1:0", tls.grpc_credentials())
    server.start()
    with listening(create_app(service, RestOptions()), **tls.http_options()) as address:
        urls = (f"{address.replace('http:', 'https:')}/v1/models/classifier", f"grpcs://localhost:{port}/classifier")
        for url in urls:
            trusted: dict[str, Any] = {"certificate": files / "authority.pem", "retries": 0, "timeout": 20}
            own = {"client_certificate": files / "own.pem", "client_key": files / "own_key.pem"}
            assert connect(url, **trusted, **own).status()
            with pytest.raises(ConnectionError):
                connect(url, **trusted).status()
    server.stop(None)


def test_a_renewed_certificate_is_read_at_the_next_connection(service: Service, tmp_path: Path) -> None:
    authorities = [trustme.CA(), trustme.CA()]

    def write(number: int) -> Path:
        issued = authorities[number].issue_cert("localhost")
        issued.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
        issued.cert_chain_pems[0].write_to_path(str(tmp_path / "certificate.pem"))
        authorities[number].cert_pem.write_to_path(str(tmp_path / f"authority{number}.pem"))
        return tmp_path / f"authority{number}.pem"

    first = write(0)
    server = GrpcServer(service, GrpcOptions())
    tls = TlsFiles(tmp_path / "certificate.pem", tmp_path / "key.pem")
    port = server.add_port("127.0.0.1:0", tls.grpc_credentials())
    server.start()
    url = f"grpcs://localhost:{port}/classifier"
    assert connect(url, certificate=first, retries=0).status()
    second = write(1)
    assert connect(url, certificate=second, retries=0, timeout=20).status()
    server.stop(None)


def test_a_url_as_target_names_path_and_host(rest: TestClient, service: Service) -> None:
    app = create_app(service, RestOptions())
    for target, status in (("http://localhost/v1/models/classifier", 200), ("http://evil.example/livez", 403)):
        scope = {
            "type": "http",
            "method": "GET",
            "path": target,
            "raw_path": target.encode(),
            "query_string": b"",
            "headers": [(b"host", b"localhost")],
            "client": ("127.0.0.1", 1),
        }
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any, sent: list[Any] = sent) -> None:
            sent.append(message)

        asyncio.run(app(scope, receive, send))
        assert sent[0]["status"] == status


def test_unknown_expectations_are_refused(rest: TestClient) -> None:
    assert rest.get("/v1/models/classifier", headers={"expect": "wonders"}).status_code == 417
    assert rest.get("/v1/models/classifier", headers={"expect": "100-Continue"}).status_code == 200


def test_a_half_renewed_certificate_is_not_used(files: Path, tmp_path: Path) -> None:
    for name in ("certificate.pem", "key.pem"):
        shutil.copy(files / name, tmp_path / name)
    tls = TlsFiles(tmp_path / "certificate.pem", tmp_path / "key.pem")
    options = ServerOptions(tls=tls)
    config = DrainingConfig(
        lambda: None, drain_seconds=0, reread=functools.partial(_reread, options), **tls.http_options()
    )
    config.load()
    server = DrainingServer(config)
    other = trustme.CA().issue_cert("localhost")
    other.cert_chain_pems[0].write_to_path(str(tmp_path / "certificate.pem"))
    server._reread()
    assert handshake(config.ssl, files / "authority.pem")


def handshake(context: ssl.SSLContext | None, authority: Path) -> bool:
    """Connects a client that trusts an authority to a server in this process."""
    assert context is not None
    client = ssl.create_default_context(cafile=authority)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        context.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
    ]
    for _ in range(6):
        for end in ends:
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    return ends[1].cipher() is not None

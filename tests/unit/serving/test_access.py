"""Requests from web pages of other sites are rejected, and a configured token is required."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme
from google.protobuf import text_encoding
from starlette.datastructures import Headers

from bert_tf.config import ConfigError
from bert_tf.serving.access import (
    TOKEN_VARIABLE,
    AccessOptions,
    TlsFiles,
    Tokens,
    WrongTokens,
    is_loopback,
    read_tokens,
)
from bert_tf.serving.configuration import read_ssl_config
from bert_tf.serving.errors import ServingError
from bert_tf.serving.http.access import AccessRules


def status(
    headers: dict[str, str], bound: str = "127.0.0.1", allowed: tuple[str, ...] = (), method: str = "POST"
) -> int:
    """Returns the status of a request with these headers; 200 if it is accepted."""
    try:
        AccessRules(bound, AccessOptions(allowed)).check(method, "/v1/models/m:predict", Headers(headers))
    except ServingError as error:
        return error.http_status
    return 200


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8501", "127.0.0.1:8501", "127.1.2.3", "[::1]:8501", "LOCALHOST."]
)
def test_names_of_this_machine_are_allowed(host: str) -> None:
    assert status({"host": host}) == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "[::1", "10.0.0.1"],
)
def test_other_names_are_refused_on_loopback(host: str) -> None:
    assert status({"host": host}) == 403
    assert status({"host": host}, allowed=("bert.example",)) == 403
    assert status({"host": host}, allowed=("*",)) == 200


def test_allowed_hosts_widen_and_narrow() -> None:
    assert status({"host": "bert.example:80"}, allowed=("BERT.example",)) == 200
    # The server cannot know the names of an address that other machines can reach.
    assert status({"host": "any.example"}, bound="0.0.0.0") == 200
    assert status({"host": "any.example"}, bound="0.0.0.0", allowed=("bert.example",)) == 403
    assert status({}) == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost:3000", "http://127.0.0.1:8502", "", "http://[", "x"]
)
def test_pages_of_other_origins_are_refused(origin: str) -> None:
    for method in ("GET", "POST"):
        assert status({"host": "localhost:8501", "origin": origin}, method=method) == 403
    assert status({"host": "localhost:8501", "origin": "http://localhost:8501"}) == 200
    assert status({"host": "any.example:8501", "origin": origin}, bound="0.0.0.0") == 403


def test_pages_of_allowed_hosts_are_accepted() -> None:
    headers = {"host": "localhost:8501", "origin": "http://app.example:3000"}
    assert status(headers, allowed=("app.example",)) == 200
    assert status(headers, allowed=("*",)) == 200


def test_requests_across_sites_without_an_origin_are_refused() -> None:
    headers = {"host": "localhost:8501", "sec-fetch-site": "cross-site"}
    assert status(headers) == 403
    # A link to the page.
    assert status(headers, method="GET") == 200


def test_loopback() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "a.localhost")] == [True] * 4
    assert [is_loopback(host) for host in ("0.0.0.0", "::", "10.0.0.1", "localhost.example", "")] == [False] * 5


def test_tokens_come_from_a_file_or_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("from-file\n")
    assert read_tokens(file, {TOKEN_VARIABLE: "from-environment"}) == Tokens(("from-file",), file)
    assert read_tokens(None, {TOKEN_VARIABLE: "from-environment"}) == Tokens(("from-environment",))
    assert read_tokens(None, {}) is None
    for wrong in ("", "\n", "two words", "é", "one\ntwo words"):
        file.write_text(wrong)
        with pytest.raises(ConfigError, match="token: a token must be printable ASCII"):
            read_tokens(file, {})
    with pytest.raises(ConfigError, match=TOKEN_VARIABLE):
        read_tokens(None, {TOKEN_VARIABLE: ""})


def test_each_token_of_a_file_is_accepted_until_it_is_removed(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("first\n\nsecond\n")
    tokens = read_tokens(file, {})
    assert tokens is not None
    for sent in ("first", "second"):
        tokens.check(f"Bearer {sent}")
    file.write_text("second\nthird")
    tokens.reload()
    tokens.check("Bearer third")
    with pytest.raises(ServingError, match="needs a token"):
        tokens.check("Bearer first")
    file.write_text("")
    with pytest.raises(ConfigError):
        tokens.reload()
    tokens.check("Bearer third")


def test_an_address_of_many_wrong_tokens_is_refused_for_a_time() -> None:
    now = [0.0]
    guard = WrongTokens(Tokens(("right",)), most=3, seconds=60, clock=lambda: now[0])

    def status_of(client: str, authorization: str) -> int:
        try:
            guard.check(client, authorization)
        except ServingError as error:
            return error.http_status
        return 200

    # A request without a token is no guess.
    assert [status_of("a", "") for _ in range(5)] == [401] * 5
    assert [status_of("a", "Bearer wrong") for _ in range(5)] == [401, 401, 401, 429, 429]
    assert status_of("a", "Bearer right") == 429
    assert status_of("b", "Bearer right") == 200
    now[0] = 59.0
    assert status_of("a", "Bearer right") == 429
    now[0] = 60.0
    assert status_of("a", "Bearer right") == 200
    assert WrongTokens(None).check("a", "") is None


def test_wrong_tokens_that_are_compared_at_once_all_count() -> None:
    guard = WrongTokens(Tokens(("right",)), most=2)

    class Slow(Tokens):
        def check(self, authorization: str) -> None:
            """Lets another wrong token of the address be compared first."""
            guard._tokens = Tokens(("right",))
            with pytest.raises(ServingError):
                guard.check("a", "Bearer other")
            super().check(authorization)

    guard._tokens = Slow(("right",))
    with pytest.raises(ServingError):
        guard.check("a", "Bearer wrong")
    assert guard._seen["a"][1] == 2


def test_addresses_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bert_tf.serving.access._MAX_ADDRESSES", 2)
    guard = WrongTokens(Tokens(("right",)))
    for client in "abc":
        with pytest.raises(ServingError):
            guard.check(client, "Bearer wrong")
    assert list(guard._seen) == ["b", "c"]


@pytest.mark.parametrize("host", ["x@localhost", "localhost/", "localhost:80:80", "[::1]x", "a localhost", "[x]"])
def test_hosts_that_are_no_authority_are_refused(host: str) -> None:
    assert status({"host": host}) == 403


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


def test_invalid_certificate_and_key_files_are_refused(files: Path, tmp_path: Path) -> None:
    other = trustme.CA().issue_cert("localhost")
    other.private_key_pem.write_to_path(str(tmp_path / "other.pem"))
    for certificate, key in (("certificate.pem", tmp_path / "other.pem"), ("key.pem", "key.pem")):
        with pytest.raises(ConfigError, match="must be a certificate and its key"):
            TlsFiles(files / certificate, files / key)
    with pytest.raises(OSError):
        TlsFiles(files / "missing.pem", files / "key.pem")


def ssl_config(files: Path, *, verify: bool = False, **changes: str) -> str:
    """Returns an SSLConfig of TF Serving with PEM in its fields."""
    names = {"server_key": "key.pem", "server_cert": "certificate.pem", "custom_ca": "authority.pem"}
    fields = {name: (files / file).read_text() for name, file in names.items()} | changes
    lines = [f'{name}: "{text_encoding.CEscape(pem, False)}"' for name, pem in fields.items() if pem]
    return "\n".join([*lines, f"client_verify: {str(verify).lower()}"])


@pytest.mark.parametrize("verify", [False, True])
def test_the_certificate_of_an_ssl_config(verify: bool, files: Path, tmp_path: Path) -> None:
    (tmp_path / "ssl.config").write_text(ssl_config(files, verify=verify))
    tls = read_ssl_config(tmp_path / "ssl.config", tmp_path)
    assert tls.certificate.read_text() == (files / "certificate.pem").read_text()
    assert tls.key.read_text() == (files / "key.pem").read_text()
    assert (tls.client_authority is not None) == verify
    if tls.client_authority is not None:
        assert tls.client_authority.read_text() == (files / "authority.pem").read_text()


@pytest.mark.parametrize(
    ("verify", "changes", "message"),
    [
        (False, {"server_key": ""}, "`server_key` must hold PEM"),
        (False, {"server_cert": ""}, "`server_cert` must hold PEM"),
        (True, {"custom_ca": ""}, "`client_verify` needs the authority"),
        (True, {"custom_ca": "no PEM"}, "must hold certificates of authorities"),
        (False, {"server_key": "no PEM"}, "must be a certificate and its key"),
        (False, {"key": "PEM"}, "not a SSLConfig"),
    ],
)
def test_an_ssl_config_that_cannot_be_used_is_refused(
    verify: bool, changes: dict[str, str], message: str, files: Path, tmp_path: Path
) -> None:
    (tmp_path / "ssl.config").write_text(ssl_config(files, verify=verify, **changes))
    with pytest.raises(ConfigError, match=message):
        read_ssl_config(tmp_path / "ssl.config", tmp_path)

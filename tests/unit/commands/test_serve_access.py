"""Flags of `bert-tf serve` for access control."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from bert_tf.commands import serve
from bert_tf.config import ConfigError


def options(*flags: str) -> Any:
    """Returns the options that a server would be started with."""
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    args = parser.parse_args(["--model", "m", *flags])
    serve._check(args)
    return serve._options(args, Path())


def test_flags_reach_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("secret\n")
    found = options(
        *("--allowed_hosts", "a.example", "b.example", "--token_file", str(tmp_path / "token"), "--access_log"),
        *("--max_text_bytes", "100", "--max_connections", "7", "--drain_seconds", "2.5", "--max_request_bytes", "9"),
    )
    assert found.rest.access.allowed_hosts == ("a.example", "b.example")
    assert found.rest.access.tokens is found.grpc.tokens and found.grpc.tokens.values == ("secret",)
    assert (found.access_log, found.max_text_bytes, found.drain_seconds) == (True, 100, 2.5)
    assert (found.connections.connections, found.grpc.max_connections) == (7, 7)
    assert (found.rest.body.max_bytes, found.grpc.max_message_bytes) == (9, 9)
    monkeypatch.setenv("BERT_TF_SERVE_TOKEN", "from-environment")
    assert options().grpc.tokens.values == ("from-environment",)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--tls_certificate", __file__), "--tls_certificate needs --tls_key"),
        (("--tls_key", __file__), "--tls_key needs --tls_certificate"),
        (("--tls_key", __file__, "--tls_certificate", __file__), "must be a certificate and its key"),
        (("--tls_key", "missing", "--tls_certificate", __file__), "--tls_key"),
        (("--token_file", "missing"), "--token_file"),
        (("--max_connections", "0"), "--max_connections must be at least 1"),
        (("--max_text_bytes", "0"), "--max_text_bytes must be at least 1"),
        (("--drain_seconds", "-1"), "--drain_seconds must be at least 0"),
    ],
)
def test_incompatible_flags_are_refused(flags: tuple[str, ...], message: str) -> None:
    with pytest.raises((ConfigError, FileNotFoundError), match=message):
        options(*flags)


@pytest.mark.parametrize(
    ("flags", "missing"),
    [
        ((), []),
        (("--host", "0.0.0.0"), ["TLS", "authentication"]),
        (("--host", "::", "--token_file", "token"), ["TLS"]),
        (("--host", "127.0.0.1"), []),
        (("--host", "localhost"), []),
    ],
)
def test_an_open_server_warns(
    flags: tuple[str, ...], missing: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bert_tf.serving.server import _warnings

    monkeypatch.chdir(tmp_path)
    Path("token").write_text("secret")
    warnings = " ".join(_warnings(options(*flags)))
    assert [name for name in ("TLS", "authentication") if name in warnings] == missing
    assert ("warning" in warnings) == bool(missing)


def test_changes_by_request_are_warned_of() -> None:
    from bert_tf.serving.server import _warnings

    assert _warnings(options()) == []
    assert "every client of the gRPC port can end models" in _warnings(options("--allow_reload_config"))[0]

"""Access control of the HTTP server: host names, web page origins, bearer token, and unambiguous requests."""

from __future__ import annotations

import hmac
import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import grpc
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bert_tf.config import ConfigError
from bert_tf.serving.errors import ServingError
from bert_tf.serving.http.responses import error_response

TOKEN_VARIABLE = "BERT_TF_SERVE_TOKEN"
_SCHEME = "bearer "
# Probes have no token, and the page asks the user for it.
_WITHOUT_TOKEN = ("/", "/livez", "/readyz")
_ANY_HOST = "*"
_SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(frozen=True)
class AccessOptions:
    """Options of access control.

    Args:
        allowed_hosts: host names that clients may use for the server, and whose web pages may send requests; `*` for
            any.
        token: token that requests must have as `Authorization: Bearer TOKEN`; None for no authentication.
    """

    allowed_hosts: tuple[str, ...] = ()
    token: str | None = None


def read_token(path: Path | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """Returns the bearer token from a file or from the environment; None if absent.

    Args:
        path: file that contains only the token; None for the variable `BERT_TF_SERVE_TOKEN`.
        environment: variables of the process.

    Raises:
        ConfigError: if the token is empty, or is not printable ASCII without spaces.
        OSError: if the file cannot be read.
    """
    if path is None and TOKEN_VARIABLE not in environment:
        return None
    source = str(path) if path else f"the variable {TOKEN_VARIABLE}"
    token = (path.read_text(encoding="utf-8", errors="replace") if path else environment[TOKEN_VARIABLE]).strip()
    if not token or not all("!" <= character <= "~" for character in token):
        raise ConfigError(
            f"{source}: a token must be printable ASCII without spaces, on one line. "
            "Make one with `openssl rand -hex 32`."
        )
    return token


def is_loopback(host: str) -> bool:
    """Returns True if an address or name is reachable only from this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_token(authorization: str, token: str | None) -> None:
    """Compares the value of an Authorization header with the token. Raises ServingError (401) if they differ."""
    if token is None:
        return
    sent = authorization[len(_SCHEME) :].strip() if authorization.lower().startswith(_SCHEME) else ""
    if not hmac.compare_digest(sent.encode("utf-8", "replace"), token.encode()):
        message = "this server needs a token; send the header `Authorization: Bearer TOKEN`"
        raise ServingError(message, grpc.StatusCode.UNAUTHENTICATED)


class AccessRules:
    """Decides which HTTP requests are answered.

    A web page of another site can send requests to a server on this machine from a user's browser. Such requests have
    a foreign Origin. If the site's name resolves to this machine (DNS rebinding), they have a foreign Host.

    Args:
        bound_host: address that the server listens on.
        options: host names and token.
    """

    def __init__(self, bound_host: str, options: AccessOptions) -> None:
        self._options = options
        self._allowed = {host.lower() for host in options.allowed_hosts}
        # A server that other machines can reach may have names that it does not know.
        self._any_host = _ANY_HOST in self._allowed or not (is_loopback(bound_host) or self._allowed)
        self._bound_host = bound_host

    def check(self, method: str, path: str, headers: Headers) -> None:
        """Checks a request.

        Args:
            method: HTTP method.
            path: path without the query.
            headers: headers of the request.

        Raises:
            ServingError: with status 403 for a host or origin that is not allowed, 401 for a wrong token.
        """
        host = headers.get("host", "")
        # HTTP/1.0 clients may omit it; browsers never do.
        if host and not self._any_host and not self._is_own(_name(host)):
            raise ServingError(
                f"the host name {host[:80]!r} is not allowed; start the server with `--allowed_hosts` and that name",
                grpc.StatusCode.PERMISSION_DENIED,
            )
        origin = headers.get("origin")
        cross_site = method != "GET" and headers.get("sec-fetch-site") == "cross-site"
        if (origin is not None or cross_site) and not self._is_own_page(origin or "null", host):
            raise ServingError(
                f"requests from web pages of {(origin or 'another site')[:80]!r} are not allowed; "
                "start the server with `--allowed_hosts` and the page's host name",
                grpc.StatusCode.PERMISSION_DENIED,
            )
        if path not in _WITHOUT_TOKEN:
            check_token(headers.get("authorization", ""), self._options.token)

    def _is_own(self, name: str) -> bool:
        return is_loopback(name) or name == self._bound_host or name in self._allowed

    def _is_own_page(self, origin: str, host: str) -> bool:
        if _ANY_HOST in self._allowed:
            return True
        authority = origin.lower().partition("://")[2]
        return bool(authority) and (authority == host.lower() or _name(authority) in self._allowed)


class AccessMiddleware:
    """Rejects requests by `AccessRules` and requests with two lengths, and adds security headers to all responses.

    Args:
        app: application that answers the other requests.
        rules: access rules.
    """

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy that uses the other length would see another request in the body (request smuggling).
            error = ServingError("a request must have either Content-Length or Transfer-Encoding. Received: both")
            response = error_response(error)
            response.headers["connection"] = "close"
            await response(scope, receive, send_with_headers)
            return
        try:
            self._rules.check(scope["method"], scope["path"], headers)
        except ServingError as error:
            await error_response(error)(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)


def _name(host: str) -> str:
    """Returns a host name in lower case, without port and IPv6 brackets."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""

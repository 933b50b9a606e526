"""Access control of the HTTP server: host names, web page origins, bearer token, and unambiguous requests."""

from __future__ import annotations

import re

import grpc
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bert_tf.serving.access import AccessOptions, WrongTokens, is_loopback
from bert_tf.serving.errors import ServingError
from bert_tf.serving.http.responses import error_response

# Probes have no token, and the page asks the user for it.
_WITHOUT_TOKEN = ("/", "/livez", "/readyz")
_ANY_HOST = "*"
_AUTHORITY = re.compile(r"(?:(?P<name>[\w.-]+)|\[(?P<ipv6>[0-9A-Fa-f:.]+)\])(?::[0-9]*)?")
_CONTINUE = "100-continue"
_SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}


class AccessRules:
    """Decides which HTTP requests are answered by a server that listens on `bound_host`.

    A web page of another site can send requests to a server on this machine from a user's browser. Such requests have a
    foreign Origin. If the site's name resolves to this machine (DNS rebinding), they have a foreign Host.
    """

    def __init__(self, bound_host: str, options: AccessOptions) -> None:
        self._options = options
        self._allowed = {host.lower() for host in options.allowed_hosts}
        # A server that other machines can reach may have names that it does not know.
        self._any_host = _ANY_HOST in self._allowed or not (is_loopback(bound_host) or self._allowed)
        self._bound_host = bound_host
        self._tokens = WrongTokens(options.tokens)

    def check(self, method: str, path: str, headers: Headers, client: str = "") -> None:
        """Raises ServingError with status 403 for a host or origin that is not allowed, 401 or 429 for wrong tokens."""
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
            self._tokens.check(client, headers.get("authorization", ""))

    def _is_own(self, name: str) -> bool:
        return is_loopback(name) or name == self._bound_host or name in self._allowed

    def _is_own_page(self, origin: str, host: str) -> bool:
        if _ANY_HOST in self._allowed:
            return True
        authority = origin.lower().partition("://")[2]
        return bool(authority) and (authority == host.lower() or _name(authority) in self._allowed)


class AccessMiddleware:
    """Rejects requests by `AccessRules` and ambiguous ones, and adds security headers to all responses."""

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

        scope = _with_origin_form(scope)
        headers = Headers(scope=scope)
        if headers.get("expect", _CONTINUE).lower() != _CONTINUE:
            error = ServingError(f"Expect must be {_CONTINUE}. Received: {headers['expect'][:80]!r}", http_status=417)
            await error_response(error)(scope, receive, send_with_headers)
            return
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy that uses the other length would see another request in the body (request smuggling).
            error = ServingError("a request must have either Content-Length or Transfer-Encoding. Received: both")
            response = error_response(error)
            response.headers["connection"] = "close"
            await response(scope, receive, send_with_headers)
            return
        try:
            client = (scope.get("client") or ("",))[0]
            self._rules.check(scope["method"], scope["path"], headers, client)
        except ServingError as error:
            await error_response(error)(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)


def _with_origin_form(scope: Scope) -> Scope:
    """Returns a request whose target is a path: a URL in its place, which proxies send, names the host too."""
    if scope["path"].startswith("/") or "://" not in scope["path"]:
        return scope
    host, slash, path = scope["path"].partition("://")[2].partition("/")
    _, raw_slash, raw_path = scope["raw_path"].partition(b"://")[2].partition(b"/")
    # The header Host is ignored then (RFC 9112, section 3.2.2).
    headers = [(name, value) for name, value in scope["headers"] if name != b"host"]
    return {
        **scope,
        "path": f"{slash or '/'}{path}",
        "raw_path": (raw_slash or b"/") + raw_path,
        "headers": [*headers, (b"host", host.encode("latin-1", "replace"))],
    }


def _name(host: str) -> str:
    """Returns a host name in lower case, without port and IPv6 brackets; empty for anything else, such as `a@host`."""
    match = _AUTHORITY.fullmatch(host)
    return (match["name"] or match["ipv6"]).lower().rstrip(".") if match else ""

"""REST client, based on the standard library only."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from bert_tf.client.base import ClientOptions, PredictError, retry

_METHOD = ":predict"
# The largest answer of `bert-tf serve` has 2^22 values of at most 20 characters.
_MAX_ANSWER_BYTES, _MAX_ERROR_BYTES = 2**28, 2**20
_SHOWN = 200


class RestClient:
    """Client of a model at `http://HOST:PORT/v1/models/NAME`, optionally with `/versions/N` or `/labels/L`."""

    def __init__(self, url: str, options: ClientOptions) -> None:
        self._url = quote(url.removesuffix(_METHOD), safe=":/%")
        self._options = options
        self._headers = {"Content-Type": "application/json"}
        if options.token is not None:
            self._headers["Authorization"] = f"Bearer {options.token}"
        is_secure = url.startswith("https://")
        context = ssl.create_default_context(cafile=options.certificate) if is_secure else None
        if context is not None and options.client_certificate is not None:
            context.load_cert_chain(options.client_certificate, options.client_key)
        self._opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _NoRedirects)

    def predict(self, instances: Sequence[Any], signature_name: str | None = None) -> list[Any]:
        """Requests predictions; see `ModelClient.predict`."""
        return self._post("predict", {"instances": list(instances)}, signature_name, "predictions")

    def classify(self, examples: Sequence[Mapping[str, Any]], signature_name: str | None = None) -> list[list[Any]]:
        """Requests classifications; see `ModelClient.classify`."""
        return self._post("classify", {"examples": list(examples)}, signature_name, "results")

    def regress(self, examples: Sequence[Mapping[str, Any]], signature_name: str | None = None) -> list[float]:
        """Requests regression values; see `ModelClient.regress`."""
        return self._post("regress", {"examples": list(examples)}, signature_name, "results")

    def status(self) -> list[dict[str, Any]]:
        """Returns the states of all versions; see `ModelClient.status`."""
        return [
            {
                "version": int(state["version"]),
                "state": state["state"],
                "error": state.get("status", {}).get("error_message", ""),
            }
            for state in self._request("", None, "model_version_status")
        ]

    def metadata(self) -> dict[str, Any]:
        """Returns the model's signatures; see `ModelClient.metadata`."""
        return self._request("/metadata", None, "metadata")["signature_def"]["signature_def"]

    def _post(self, verb: str, body: dict[str, Any], signature_name: str | None, key: str) -> Any:
        if signature_name is not None:
            body["signature_name"] = signature_name
        return self._request(f":{verb}", json.dumps(body).encode(), key)

    def _request(self, suffix: str, body: bytes | None, key: str) -> Any:
        return retry(lambda: self._once(suffix, body, key), self._options.retries)

    def _once(self, suffix: str, body: bytes | None, key: str) -> Any:
        request = urllib.request.Request(self._url + suffix, body, self._headers)
        try:
            with self._opener.open(request, timeout=self._options.timeout) as response:
                status, content = response.status, response.read(_MAX_ANSWER_BYTES + 1)
        except urllib.error.HTTPError as error:
            raise PredictError(_error_message(error), error.code) from error
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            reason = getattr(error, "reason", error)
            raise ConnectionError(f"cannot connect to a model server at {self._url}: {reason}") from error
        if len(content) > _MAX_ANSWER_BYTES:
            rule = f"an answer must have at most {_MAX_ANSWER_BYTES} bytes; send fewer rows at once"
            raise PredictError(rule, status)
        try:
            return json.loads(content)[key]
        except (ValueError, KeyError, TypeError) as error:
            raise PredictError(f"not a response of a model server: {content[:_SHOWN]!r}", status) from error


def _error_message(error: urllib.error.HTTPError) -> str:
    if location := error.headers.get("location"):
        return (
            f"the server redirects to {location[:_SHOWN]!r}; a client does not follow, because it would send its token "
            "there. Connect to that address instead if you trust it"
        )
    content = error.read(_MAX_ERROR_BYTES)
    try:
        return str(json.loads(content)["error"])
    except (ValueError, KeyError, TypeError):
        return content[:_SHOWN].decode("utf-8", "replace")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Makes an error of each redirection."""

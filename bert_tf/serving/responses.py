"""HTTP responses in TF Serving's form."""

from __future__ import annotations

import json
from http import HTTPStatus

from starlette.responses import Response

from bert_tf.serving.errors import break_reference_cycles, serving_error


def json_response(content: bytes, status: int = 200) -> Response:
    """Returns a response of JSON."""
    return Response(content, status, media_type="application/json")


def error_response(error: Exception) -> Response:
    """Returns the response to a request that failed, and frees what the error refers to."""
    refused = serving_error(error)
    break_reference_cycles(refused)
    response = json_response(json.dumps({"error": str(refused)}).encode(), refused.http_status)
    if refused.http_status == HTTPStatus.UNAUTHORIZED:
        response.headers["www-authenticate"] = "Bearer"
    return response

"""HTTP responses in TF Serving's form."""

from __future__ import annotations

import json
from http import HTTPStatus

from starlette.responses import Response

from bert_tf.serving.errors import break_reference_cycles, serving_error


def json_response(content: bytes, status: int = 200) -> Response:
    """Returns a JSON response."""
    return Response(content, status, media_type="application/json")


def error_response(error: Exception) -> Response:
    """Returns the response to a failed request, and breaks the reference cycles of the error."""
    client_error = serving_error(error)
    break_reference_cycles(client_error)
    response = json_response(json.dumps({"error": str(client_error)}).encode(), client_error.http_status)
    if client_error.http_status == HTTPStatus.UNAUTHORIZED:
        response.headers["www-authenticate"] = "Bearer"
    return response

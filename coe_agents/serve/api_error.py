"""Owns the errors that a caller is sent: a status, and the body in which OpenAI's clients look for the message."""

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}

_LONGEST = 1000
"""Characters of a message, which may repeat a name from the request."""


class ApiError(Exception):
    """A request that is not answered.

    Its message says what is wrong with the request, and what to do; it holds no text of a model. `param` is the field
    at fault, and `code` a word for programs, such as "model_not_found".
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message[:_LONGEST]
        self.code = code
        self.headers = headers
        self.param = param and param[:_LONGEST]

    def to_response(self) -> Response:
        usual = "server_error" if self.status >= 500 else "invalid_request_error"
        error = {
            "message": self.message,
            "type": _TYPES.get(self.status, usual),
            "param": self.param,
            "code": self.code,
        }
        return json_response({"error": error}, status=self.status, headers=self.headers)


def invalid_request(param: str, must: str, advice: str) -> ApiError:
    """Returns the error of a request with an invalid field: what must hold of it, and what to do."""
    return ApiError(400, f"{must}. {advice}", param=param, code="invalid_value")


def unsupported_request(param: str, must: str, advice: str) -> ApiError:
    """Returns the error of a request with a field that asks for what no group can do; see `invalid_request`."""
    return ApiError(400, f"{must}. {advice}", param=param, code="unsupported_parameter")


def json_response(
    content: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Returns JSON in ASCII: a lone surrogate in a model's text could not be encoded."""
    return Response(json.dumps(content), status, headers, media_type="application/json")


def caller_gone() -> ApiError:
    """Returns the error of a request whose caller dropped the connection; nobody receives it."""
    return ApiError(499, "the caller dropped the connection")

"""Reading requests and writing answers: limits, authorisation, errors that name the field."""

import hmac
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from deep_interest.service.schemas import ErrorBody, ErrorResponse

Body = TypeVar("Body", bound=BaseModel)


class JSON(Response):
    """An answer in JSON."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return content if isinstance(content, bytes) else orjson.dumps(content)


class RequestError(Exception):
    """A request that cannot be served.

    Args:
        status: HTTP status.
        message: what is wrong and what to do.
        field: field of the request.
        headers: further headers of the answer.
    """

    def __init__(
        self, status: int, message: str, field: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.field, self.headers = status, message, field, headers

    def response(self) -> JSON:
        """Return the answer."""
        body = ErrorResponse(error=ErrorBody(message=self.message, field=self.field))
        return JSON(body.model_dump(), status_code=self.status, headers=self.headers)


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body of a request.

    Raises:
        RequestError: it is larger than the limit, or the client has gone.
    """
    too_large = RequestError(
        413, f"the body is larger than {limit:,} bytes; send fewer candidates, or raise --max-body"
    )
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > limit:
        raise too_large
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > limit:
                raise too_large
            parts.append(part)
    except ClientDisconnect as error:
        raise RequestError(400, "the client closed the connection before the end of the body") from error
    return b"".join(parts)


def parse(model: type[Body], body: bytes) -> Body:
    """Validate a body.

    Raises:
        RequestError: it is not JSON, or a field is missing, unknown or invalid.
    """
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            raise RequestError(400, f"the body is not JSON: {first['msg']}") from error
        field = ".".join(str(part) for part in first["loc"] if not _is_type_name(part))
        raise RequestError(422, f"{field or 'body'}: {first['msg']}", field or None) from error


def _is_type_name(part: int | str) -> bool:
    """Whether a part of pydantic's location is a member of a union, not a name of the request."""
    return isinstance(part, str) and (
        "[" in part or "constrained" in part or part in ("int", "str", "float", "bool", "none")
    )


def check_token(request: Request, token: str | None) -> None:
    """Check the bearer token of a request.

    Raises:
        RequestError: it is missing or wrong.
    """
    if token is None:
        return
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(value.encode(), token.encode()):
        raise RequestError(
            401,
            "send the service's token as `Authorization: Bearer TOKEN`",
            headers={"WWW-Authenticate": "Bearer"},
        )

"""Reading requests and writing responses: limits, authorisation, errors that name the field."""

import hmac
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from deep_interest.service.schemas import ErrorBody, ErrorResponse

Body = TypeVar("Body", bound=BaseModel)


class JSON(Response):
    """A response in JSON."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return content if isinstance(content, bytes) else orjson.dumps(content)


class RequestError(Exception):
    """A request that cannot be served.

    Args:
        status: HTTP status.
        message: what is wrong and what to do.
        field: field of the request.
        headers: further headers of the response.
    """

    def __init__(
        self, status: int, message: str, field: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.field, self.headers = status, message, field, headers

    def response(self, route: str = "") -> JSON:
        """Return the response; under ``/v2`` in the form of the Open Inference Protocol, where ``error`` is a string."""
        if route.startswith("/v2"):
            body = {"error": self.message, "field": self.field}
        else:
            body = ErrorResponse(error=ErrorBody(message=self.message, field=self.field)).model_dump()
        return JSON(body, status_code=self.status, headers=self.headers)


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
        raise invalid(error) from error


def invalid(error: ValidationError) -> RequestError:
    """Return the error of the first invalid field."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    if problems[0]["type"] == "json_invalid":
        return RequestError(400, f"the body is not JSON: {problems[0]['msg']}")
    field = _name(problems[0]["loc"])
    of_field = [of for of in problems if _name(of["loc"]) == field]
    informative = [
        of for of in of_field if not of["type"].endswith("_type")
    ]  # of a union, the member of the right type
    message = " or ".join(dict.fromkeys(of["msg"] for of in informative[:1] or of_field))
    return RequestError(422, f"{field or 'body'}: {message}", field or None)


def _name(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in location if not _is_type_name(part))


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


def check_size(name: str, size: int, limit: int) -> None:
    """Check the length of a list of a request.

    Raises:
        RequestError: it is longer than the limit.
    """
    if size > limit:
        raise RequestError(
            422,
            f"{name}: found {size:,}, at most {limit:,} are allowed; raise --max-{name} to allow more",
            name,
        )

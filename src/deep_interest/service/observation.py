"""What a worker reports about a request: the response to an error, and a line of the access log."""

import json
import logging
import time
from typing import Any

from starlette.requests import Request

from deep_interest.errors import InputError
from deep_interest.service.http import RequestError
from deep_interest.serving.events import EventStoreError

logger = logging.getLogger("deep_interest.service")
access = logging.getLogger("deep_interest.access")


def failure(error: Exception, request: Request, route: str) -> RequestError:
    """Return the response to an error; what the client has not caused is logged, and the response only names the request."""
    if isinstance(error, RequestError):
        return error
    request_id = request.state.request_id
    if isinstance(error, EventStoreError):
        logger.error("request %s: %s", request_id, error)
        return RequestError(
            503, f"events cannot be stored or read now; the log has the reason under {request_id}"
        )
    if isinstance(error, InputError):  # its message begins with the field
        field, colon, rest = str(error).partition(":")
        field = "candidates" if route == "/rank" and field == "items" else field
        return RequestError(422, field + colon + rest, field)
    logger.error("request %s failed", request_id, exc_info=error)
    return RequestError(500, f"the service failed; its log has the reason under {request_id}")


def log_access(request: Request, route: str, status: int, seconds: float) -> None:
    """Write a request as a line of JSON."""
    state = request.state
    entry: dict[str, Any] = {
        "time": round(time.time(), 3), "request_id": state.request_id, "client": request.client.host if request.client else None,
        "method": request.method, "route": route, "status": status, "ms": round(1000 * seconds, 2),
    }  # fmt: skip
    if state.candidates is not None:
        entry |= {"candidates": state.candidates, "version": state.version, "precision": str(state.precision)}
    access.info(json.dumps(entry))

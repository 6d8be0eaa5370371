"""The OpenAPI document, and a page that shows it without anything from elsewhere."""

import html
import json
from typing import Any

from pydantic.json_schema import models_json_schema

import deep_interest
from deep_interest.service import schemas
from deep_interest.service.deployment import Deployment
from deep_interest.service.settings import ServiceSettings

_MODELS = (
    schemas.RankRequest, schemas.RankResponse, schemas.EventsRequest, schemas.EventsResponse, schemas.InferRequest,
    schemas.ErrorResponse,
)  # fmt: skip
_ERRORS = {
    "400": "The body is not JSON.", "401": "The token is missing or wrong.", "413": "The body is too large.",
    "422": "A field is missing, unknown or invalid; the response names it.", "503": "The queue is full; try again later.",
}  # fmt: skip


def document(settings: ServiceSettings) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document."""
    _, definitions = models_json_schema(
        [(model, "validation") for model in _MODELS], ref_template="#/components/schemas/{model}"
    )
    infer = "/v2/models/{model}/infer"
    paths = {
        "/rank": {"post": _post("Rank candidates for a user.", "RankRequest", "RankResponse")},
        "/events": {"post": _post("Store behaviours that have just happened.", "EventsRequest", "EventsResponse")},
        infer: {
            "post": _post("Score candidates by the Open Inference Protocol.", "InferRequest", None, errors=("404",)),
            "parameters": [_parameter("model")],
        },
        "/v2": {"get": _get("Describe the server.")},
        "/v2/health/live": {"get": _get("Answer while the process runs.")},
        "/v2/health/ready": {"get": _get("Answer when a version serves.")},
        "/v2/models/{model}": {
            "get": _get("Describe the model: inputs, outputs, versions.", errors=("404",)),
            "parameters": [_parameter("model")],
        },
        "/v2/models/{model}/ready": {
            "get": _get("Answer when the model serves.", errors=("404",)), "parameters": [_parameter("model")],
        },
        "/metrics": {"get": _get("Metrics in Prometheus' text format.", content="text/plain")},
        "/docs": {"get": _get("This document as a page.", content="text/html")},
        "/openapi.json": {"get": _get("This document.")},
    }  # fmt: skip
    components: dict[str, Any] = {"schemas": definitions["$defs"]}
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": f"Ranking with {settings.experiment}", "version": deep_interest.__version__},
        "paths": paths,
        "components": components,
    }
    if settings.token is not None:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
    return found


def _post(summary: str, body: str, response: str | None, *, errors: tuple[str, ...] = ()) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{body}"}}}
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": content},
        "responses": {"200": _response(response), **_failures(*_ERRORS, *errors)},
    }


def _get(summary: str, *, content: str = "application/json", errors: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"summary": summary, "responses": {"200": _response(None, content), **_failures("401", *errors)}}


def _response(model: str | None, content: str = "application/json") -> dict[str, Any]:
    schema = {} if model is None else {"$ref": f"#/components/schemas/{model}"}
    return {"description": "Success.", "content": {content: {"schema": schema}}}


def _failures(*statuses: str) -> dict[str, Any]:
    texts = _ERRORS | {"404": "There is no such model or version."}
    schema = {"$ref": "#/components/schemas/ErrorResponse"}
    return {
        status: {"description": texts[status], "content": {"application/json": {"schema": schema}}}
        for status in statuses
    }


def _parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def page(settings: ServiceSettings, deployment: Deployment) -> str:
    """Return the document as a page, with an example that works."""
    described = document(settings)
    rows = "".join(
        f"<tr><td><code>{method.upper()} {html.escape(path)}</code></td><td>{html.escape(operation['summary'])}</td></tr>"
        for path, operations in described["paths"].items()
        for method, operation in operations.items()
        if method in ("get", "post")
    )
    fields = "".join(_fields(name, schema) for name, schema in described["components"]["schemas"].items())
    example = html.escape(json.dumps(example_request(deployment)))
    token = "" if settings.token is None else " -H 'Authorization: Bearer TOKEN'"
    title = html.escape(described["info"]["title"])
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'><title>{title}</title>"
        f"<style>{_STYLE}</style><h1>{title}</h1><p>Version <code>{html.escape(deployment.primary.version)}</code> serves, in "
        f"{deployment.primary.precision}. "
        "<a href=openapi.json>openapi.json</a> · <a href=metrics>metrics</a></p>"
        f"<h2>Try it</h2><pre>curl{token} -H 'Content-Type: application/json' \\\n  http://{html.escape(settings.host)}:"
        f"{settings.port}/rank \\\n  -d '{example}'</pre>"
        f"<h2>Paths</h2><table>{rows}</table><h2>Bodies</h2>{fields}</html>"
    )


def example_request(deployment: Deployment) -> dict[str, Any]:
    """Return a ranking request with ids and values of the log."""
    ranker = deployment.primary
    encoder = ranker.snapshot.encoder
    lengths = ranker.store.offsets.diff()[1:]
    request: dict[str, Any] = {
        "candidates": [{"item": item, "bid": 1.0} for item in encoder.items.values[:3].tolist()]
    }
    if len(lengths):
        request = {"user": encoder.users.values[[int(lengths.argmax())]].tolist()[0], **request}
    context = {name: _example(ranker, name) for name in ranker.context}
    return request | ({"context": context} if context else {})


def _example(ranker: Any, name: str) -> Any:
    values = ranker.snapshot.encoder.context.fields[name].vocabulary.values
    return 1.0 if name in ranker.facts.columns.numeric or not len(values) else values[:1].tolist()[0]


def _fields(name: str, schema: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{html.escape(field)}</code></td><td>{html.escape(_type(of))}</td>"
        f"<td>{'required' if field in schema.get('required', ()) else ''}</td><td>{html.escape(of.get('description', ''))}</td></tr>"
        for field, of in schema.get("properties", {}).items()
    )
    return f"<h3>{html.escape(name)}</h3><p>{html.escape(schema.get('description', ''))}</p><table>{rows}</table>"


def _type(schema: dict[str, Any]) -> str:
    """Return the type of a field in words."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(of) for of in schema["anyOf"]))
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}" if schema.get("items") else "list"
    return str(schema.get("type", "any"))


_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}"
    "table{border-collapse:collapse;width:100%;display:block;overflow-x:auto}td{border-top:1px solid #ddd;padding:.3rem .6rem .3rem 0;vertical-align:top}"
    "pre{background:#f4f4f4;padding:1rem;white-space:pre-wrap;overflow-wrap:anywhere}h3{margin-bottom:0}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}pre{background:#262626}td{border-color:#444}a{color:#8ab4f8}}"
)

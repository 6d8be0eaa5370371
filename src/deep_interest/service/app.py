"""The routes of the service."""

import logging
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

import deep_interest
from deep_interest.service import inference
from deep_interest.service.deployment import Deployment, DeploymentLoader
from deep_interest.service.http import JSON, RequestError, check_size, check_token, parse, read_body
from deep_interest.service.metrics import Metrics
from deep_interest.service.observation import failure, log_access
from deep_interest.service.openapi import document, page
from deep_interest.service.rank_request import Ranked, parse_ranked
from deep_interest.service.request_log import RequestLog
from deep_interest.service.schemas import EventsRequest
from deep_interest.service.scoring_queue import Prepared, QueueFullError, Task, make_queue
from deep_interest.service.settings import ServiceSettings
from deep_interest.serving.events import EventStore
from deep_interest.serving.exploration import Exploration
from deep_interest.serving.ranker import Features, Ranker, Ranking, order

logger = logging.getLogger("deep_interest.service")
Handler = Callable[[Request], Awaitable[Response]]
NAME = "deep-interest"


class Service:
    """One worker.

    Args:
        settings: settings of the service.
        loader: versions that serve.
        events: event store.
        metrics: metrics of the worker.
        request_log: log of features and scores; None for none.
    """

    def __init__(
        self, settings: ServiceSettings, loader: DeploymentLoader, events: EventStore, metrics: Metrics,
        request_log: RequestLog | None = None,
    ) -> None:  # fmt: skip
        self.settings, self.loader, self.events, self.metrics = settings, loader, events, metrics
        self.request_log = request_log
        self.queue = make_queue(settings, loader.device)

    async def rank(self, request: Request) -> Response:
        """Rank candidates."""
        body = await read_body(request, self.settings.max_body)
        return await self._scored(partial(self._rank, request, body))

    def _rank(self, request: Request, body: bytes) -> Prepared:
        wanted = parse_ranked(body)
        return self._prepared(
            request, wanted, partial(_ranking_response, request, wanted), explore=self.settings.explore
        )

    def _prepared(
        self,
        request: Request,
        wanted: Ranked,
        respond: Callable[[Ranker, Ranking], Response],
        version: str | None = None,
        explore: Exploration | None = None,
    ) -> Prepared:
        """Check the limits and encode a request for a version, that of its user by default."""
        limits = self.settings
        options = wanted.options
        check_size("candidates", len(wanted.items), limits.max_candidates)
        check_size("history", len(options.history or ()), limits.max_history)
        if options.request_id is not None:
            request.state.request_id = options.request_id
        deployment = self.loader.current  # one deployment for the whole request
        ranker = (
            deployment.ranker_of(options.user) if version is None else deployment.ranker_of_version(version)
        )
        ranking_request = wanted.ranking_request()
        features = ranker.features(ranking_request)

        def finish(ctr: np.ndarray) -> Response:
            ranking = order(ranking_request, features, ctr)
            if explore is not None:
                slots = min(options.top_k or len(ctr), len(ctr))
                ranking = explore.explore(ranking, request.state.request_id, slots)
            self._observe(request, deployment, ranker, features)
            self._log(request, wanted, ranker, ranking, deployment.shadow)
            return respond(ranker, ranking)

        return Prepared(ranker, features, finish)

    def _log(
        self, request: Request, wanted: Ranked, ranker: Ranker, ranking: Ranking, shadow: Ranker | None
    ) -> None:
        """Log a ranking and the scores of the shadow; a failure of either does not concern the client."""
        if self.request_log is None:
            return
        try:
            self.request_log.write(request.state.request_id, wanted, ranker, ranking, shadow)
        except Exception:
            self.metrics.unlogged.inc()
            logger.exception("request %s is not in the request log", request.state.request_id)

    def _observe(self, request: Request, deployment: Deployment, ranker: Ranker, features: Features) -> None:
        request.state.version, request.state.precision, request.state.candidates = (
            ranker.version,
            ranker.precision,
            features.size,
        )
        self.metrics.serves(deployment.primary.version, deployment.primary.precision)
        self.metrics.candidates.inc(features.size)
        self.metrics.unknown_items.inc(features.unknown_items)
        self.metrics.unknown_users.inc(features.unknown_user)

    async def infer(self, request: Request) -> Response:
        """Score candidates by the Open Inference Protocol."""
        body = await read_body(request, self.settings.max_body)
        return await self._scored(partial(self._infer, request, body))

    def _infer(self, request: Request, body: bytes) -> Prepared:
        self._check_model(request)
        decoded = inference.decode(body, request.headers.get(inference.HEADER_LENGTH))
        respond = partial(inference.encode, decoded.id or request.state.request_id, decoded.outputs)
        return self._prepared(request, decoded.request, respond, request.path_params.get("version"))

    async def _scored(self, task: Task) -> Response:
        try:
            response: Response = await self.queue.run(task)
        except QueueFullError as error:
            raise RequestError(
                503, f"{self.queue.limit} requests are waiting already; send this one again later",
                headers={"Retry-After": "1"},
            ) from error  # fmt: skip
        finally:
            self.metrics.queue.set(self.queue.pending)
        return response

    async def add_events(self, request: Request) -> Response:
        """Store behaviours."""
        body = await read_body(request, self.settings.max_body)
        return await self._scored(partial(self._add_events, body))

    def _add_events(self, body: bytes) -> Response:
        wanted = parse(EventsRequest, body)
        check_size("events", len(wanted.events), self.settings.max_events)
        ranker = self.loader.current.primary
        events = wanted.for_store()
        for index, event in enumerate(events):
            if unknown := [name for name in event.columns if name not in ranker.columns]:
                raise RequestError(
                    422,
                    f"events.{index}.columns: the model does not see {unknown[0]}; it sees {', '.join(ranker.columns) or 'none'}",
                    f"events.{index}.columns.{unknown[0]}",
                )
            ranker.check_event(event, f"events.{index}")
        self.events.add(events)
        self.metrics.events.inc(len(events))
        return JSON({"accepted": len(events)})

    async def live(self, request: Request) -> Response:
        """Answer while the process runs."""
        return JSON({"live": True})

    async def ready(self, request: Request) -> Response:
        """Answer when a version serves."""
        return JSON({"ready": True})

    async def server(self, request: Request) -> Response:
        """Describe the server."""
        return JSON(
            {"name": NAME, "version": deep_interest.__version__, "extensions": ["binary_tensor_data"]}
        )

    async def model(self, request: Request) -> Response:
        """Describe the model."""
        self._check_model(request)
        return JSON(inference.metadata(self.settings.experiment, self.loader.current))

    async def model_ready(self, request: Request) -> Response:
        """Answer when the model serves."""
        self._check_model(request)
        return JSON({"name": self.settings.experiment, "ready": True})

    async def exposition(self, request: Request) -> Response:
        """Return the metrics."""
        primary = self.loader.current.primary
        self.metrics.serves(primary.version, primary.precision)
        return PlainTextResponse(self.metrics.exposition(), media_type="text/plain; version=0.0.4")

    async def openapi(self, request: Request) -> Response:
        """Return the OpenAPI document."""
        return JSON(document(self.settings))

    async def docs(self, request: Request) -> Response:
        """Return the OpenAPI document as a page."""
        return HTMLResponse(page(self.settings, self.loader.current))

    def _check_model(self, request: Request) -> None:
        name, version = request.path_params["model"], request.path_params.get("version")
        versions = [ranker.version for ranker in self.loader.current.rankers.values()]
        if name != self.settings.experiment:
            raise RequestError(
                404, f"the service has no model {name}; it has {self.settings.experiment}", "model"
            )
        if version is not None and version not in versions:
            raise RequestError(
                404, f"version {version} does not serve; {', '.join(versions)} does", "version"
            )

    def routes(self) -> list[Route]:
        """Return the routes."""
        model = "/v2/models/{model}"
        table: list[tuple[str, Handler, str]] = [
            ("/rank", self.rank, "POST"), ("/events", self.add_events, "POST"), ("/metrics", self.exposition, "GET"),
            ("/openapi.json", self.openapi, "GET"), ("/docs", self.docs, "GET"),
            ("/v2", self.server, "GET"), ("/v2/health/live", self.live, "GET"), ("/v2/health/ready", self.ready, "GET"),
        ]  # fmt: skip
        for of in (model, model + "/versions/{version}"):
            table += [
                (of, self.model, "GET"),
                (f"{of}/ready", self.model_ready, "GET"),
                (f"{of}/infer", self.infer, "POST"),
            ]
        return [
            Route(path, self._observed(path, handler), methods=[method]) for path, handler, method in table
        ]

    def _observed(self, route: str, handler: Handler) -> Handler:
        """Check the token, answer errors, measure and log."""

        async def observed(request: Request) -> Response:
            start = time.perf_counter()
            request.state.request_id, request.state.version, request.state.candidates = (
                uuid.uuid4().hex,
                None,
                None,
            )
            try:
                if route not in PUBLIC_PATHS:
                    check_token(request, self.settings.token)
                response = await handler(request)
            except Exception as error:
                response = failure(error, request, route).response(route)
            seconds = time.perf_counter() - start
            response.headers["X-Request-Id"] = request.state.request_id
            self.metrics.requests.labels(route, response.status_code).inc()
            self.metrics.seconds.labels(route).observe(seconds)
            if self.settings.access_log:
                log_access(request, route, response.status_code, seconds)
            return response

        return observed


PUBLIC_PATHS = ("/v2/health/live", "/v2/health/ready")
"""Paths that need no token."""


def _ranking_response(request: Request, wanted: Ranked, ranker: Ranker, ranking: Ranking) -> Response:
    """Return the response to a ranking request."""
    items, best = wanted.items, ranking.order[: wanted.options.top_k]
    rows = zip(
        best.tolist(),
        ranking.ctr[best].tolist(),
        wanted.bids[best].tolist(),
        ranking.ecpm[best].tolist(),
        strict=True,
    )
    ranked = [{"item": items[index], "ctr": ctr, "bid": bid, "ecpm": ecpm} for index, ctr, bid, ecpm in rows]
    if ranking.propensity is not None:
        for shown, propensity in zip(
            ranked, ranking.propensity.tolist(), strict=False
        ):  # later slots have none
            shown["propensity"] = propensity
    return JSON(
        {
            "request_id": request.state.request_id,
            "model": ranker.facts.experiment,
            "version": ranker.version,
            "precision": ranker.precision.model_dump(),
            "unknown_user": ranking.features.unknown_user,
            "unknown_items": ranking.features.unknown_items,
            "ranking": ranked,
        }
    )


def make_app(service: Service) -> Starlette:
    """Return the application; it starts to watch for new versions when it starts, and stops when it ends."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        service.loader.start()
        yield
        service.loader.stop()
        service.queue.close()
        service.events.close()

    async def not_found(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        message = {
            404: "there is no such path; /docs lists the paths",
            405: "the path does not allow this method",
        }
        return RequestError(
            error.status_code, message.get(error.status_code, error.detail), headers=dict(error.headers or {})
        ).response(request.url.path)

    return Starlette(
        routes=service.routes(), lifespan=lifespan, exception_handlers={HTTPException: not_found}
    )

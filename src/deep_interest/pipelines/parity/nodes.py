"""Score the requests of the service again, and fail if a score differs."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from deep_interest.errors import InputError
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.retrain.nodes import reading_of
from deep_interest.retraining.days import list_days, read_days
from deep_interest.retraining.parameters import RetrainingParameters
from deep_interest.serving.encoder import Encoder
from deep_interest.serving.registry import Registry
from deep_interest.serving.version import Version

logger = logging.getLogger(__name__)


def make_compare(dataset: str, model: str) -> Callable[..., dict[str, Any]]:
    """Return the node function that compares served with batch scores."""

    def compare(
        requests: Path | None, days: Path, registry: Registry, settings: DatasetParameters,
        retraining: RetrainingParameters,
    ) -> dict[str, Any]:  # fmt: skip
        """Return the comparison, see `retraining.parity.compare_served`.

        Raises:
            InputError: there is no request log.
        """
        from deep_interest.retraining.parity import TOLERANCE, compare_served, read_request_log
        from deep_interest.retraining.scoring import encode_current_log

        if requests is None:
            raise InputError(
                f"{dataset}.{model}: there is no request log; run `deep-interest serve {dataset}.{model} --log-requests` and send "
                "requests"
            )
        first_day = None if retraining.history_days is None else -retraining.history_days - 1
        tables = read_days(days, list_days(days)[first_day:], reading_of(settings))
        columns = settings.features

        def encoder_of(version: Version) -> tuple[Encoder, dict[str, np.ndarray]]:
            context = {name: tables.shown[name].head(1) for name in columns.context}
            current = encode_current_log(tables, columns, version, context)
            encoder = Encoder(current.log.users, current.log.items, current.vocabularies, columns)
            return encoder, current.features.items

        return compare_served(read_request_log(requests), registry.load, encoder_of, tolerance=TOLERANCE)

    return compare


def make_require(dataset: str, model: str) -> Callable[[dict[str, Any]], None]:
    """Return the node function that fails if a score differs."""

    def require(parity: dict[str, Any]) -> None:
        """Log the comparison.

        Raises:
            InputError: a served score differs from that of batch scoring.
        """
        for group in ("candidate", "context"):
            if changed := parity[f"other_{group}_codes"]:
                logger.warning(
                    "%s.%s: in %s of %s requests the %s has other codes by now, because the items or values have changed",
                    dataset, model, f"{changed:,}", f"{parity['requests']:,}", group,
                )  # fmt: skip
        if not parity["passed"]:
            raise InputError(
                f"{dataset}.{model}: served and batch scores differ by up to {parity['largest_difference']:.2g} (tolerance "
                f"{parity['tolerance']:g}), first in request {parity['differing_requests'][0]}; the service and this project may have "
                "different code or packages: restart the service"
            )

    return require

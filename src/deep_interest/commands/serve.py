"""`deep-interest serve`: prepare what the service needs from the registry and the current days, and run it."""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kedro.framework.context import KedroContext
from kedro.io import DatasetError

from deep_interest.commands.session import open_project, require_dataset, split_experiment
from deep_interest.errors import InputError
from deep_interest.experiments import RETRAINABLE
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.retrain.nodes import reading_of
from deep_interest.retraining.days import list_days, read_days
from deep_interest.service.deployment import Serving
from deep_interest.service.settings import TOKEN_VARIABLE, ServiceSettings
from deep_interest.service.supervisor import run_service
from deep_interest.serving.registry import Registry
from deep_interest.serving.snapshot import SnapshotFacts, save_snapshot
from deep_interest.serving.version import Version

logger = logging.getLogger(__name__)
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class Roles:
    """Versions that do something else than the champion.

    Attributes:
        shadow: version that scores every ranking as well; None for none.
        split: version that serves a share of the users; None for none.
        share: this share.
    """

    shadow: str | None = None
    split: str | None = None
    share: float = 0.0


def serve_model(
    experiment: str, *, roles: Roles, options: dict[str, Any], env: str | None, write: Callable[[str], None]
) -> None:
    """Serve the champion of a model until the process is asked to end.

    Args:
        experiment: ``DATASET.MODEL``.
        roles: further versions.
        options: options of `ServiceSettings` that the user has set.
        env: configuration environment.
        write: prints a line.

    Raises:
        InputError: unknown dataset or model, no version serves yet, an option that does not fit, or the address is in use.
    """
    dataset, model = split_experiment(experiment, RETRAINABLE)
    with open_project(env) as context:
        require_dataset(context, dataset)
        project = Project(context, dataset, model)
        folder = Path(options.pop("folder", None) or project.default_folder)
        if options.pop("log_requests", False):
            options["request_log"] = folder.resolve() / "requests"
        settings = ServiceSettings(experiment=experiment, folder=folder.resolve(), **options)
        if settings.host not in LOOPBACK and settings.token is None:
            raise InputError(
                f"--host: {settings.host} can be reached from other machines; set a token that requests must have with "
                "--token-file FILE, or listen on 127.0.0.1 behind a proxy"
            )
        if roles.shadow is not None and settings.request_log is None:
            raise InputError(
                "--shadow: the scores of a shadow are only in the request log; add --log-requests"
            )
        write(f"{experiment}: reading the registry and the current days")

        def started(serving: Serving) -> None:
            version = serving.primary.rpartition(".")[0]
            write(f"{experiment}: {version} serves on http://{settings.host}:{settings.port} (/docs)")

        run_service(settings, lambda: project.prepare(settings, roles), started=started)


def parse_roles(shadow: str | None, split: str | None) -> Roles:
    """Return the roles that the options name.

    Raises:
        InputError: ``split`` is not ``VERSION=SHARE`` with a share above 0 and at most 1.
    """
    if split is None:
        return Roles(shadow)
    version, _, share = split.partition("=")
    try:
        value = float(share)
    except ValueError:
        value = 0.0
    if not version or not 0 < value <= 1:
        raise InputError(
            f"--split: found {split}, expected VERSION=SHARE with a share above 0 and at most 1, such as 0.1"
        )
    return Roles(shadow, version, value)


class Project:
    """The parts of a project that serve a model.

    Args:
        context: the project.
        dataset, model: keys.
    """

    def __init__(self, context: KedroContext, dataset: str, model: str) -> None:
        self._name = f"{dataset}.{model}"
        self._roles_existed, self._missing = False, set[str]()
        parameters = context.config_loader["parameters"]
        self._settings = DatasetParameters.model_validate(parameters["datasets"][dataset])
        self._history_days: int | None = parameters["retraining"].get("history_days")
        try:
            self.registry: Registry = context.catalog.load(f"{self._name}.registry")
            self._days: Path = context.catalog.load(f"{dataset}.days")
        except DatasetError as error:
            raise InputError(str(error.__cause__ or error)) from error

    @property
    def default_folder(self) -> Path:
        """Folder of the service, next to the registry."""
        return self.registry.folder.parent / "service"

    def prepare(self, settings: ServiceSettings, roles: Roles) -> Serving:
        """Write the snapshots of the champion and of the other versions, where they are missing, and name them.

        Raises:
            InputError: no version serves yet, a version is damaged, or the days cannot be read.
        """
        champion = self.registry.state().champion
        if champion is None:
            raise InputError(
                f"{self._name}: no version serves yet; run `kedro run --pipelines=retrain.{self._name}`"
            )
        first = None if self._history_days is None else -self._history_days - 1
        days = list_days(self._days)[first:]
        if not days:
            raise InputError(
                f"{self._days}: there is no day; the service needs the behaviours of the current days"
            )
        roles = self._existing(roles)
        names = {name: f"{name}.{days[-1]}" for name in (champion, roles.shadow, roles.split) if name}
        missing = [name for name, snapshot in names.items() if not (settings.snapshots / snapshot).is_dir()]
        if missing:
            self._write([self.registry.load(name) for name in missing], days, settings, names)
        return Serving(
            primary=names[champion], shadow=names.get(roles.shadow or ""), split=names.get(roles.split or ""),
            share=roles.share,
        )  # fmt: skip

    def _existing(self, roles: Roles) -> Roles:
        """Return the roles without versions that retraining has deleted since the service started.

        Raises:
            InputError: at the start, a version does not exist.
        """
        missing = {name for name in (roles.shadow, roles.split) if name} - set(self.registry.names())
        if not missing:
            self._roles_existed = True
            return roles
        if not self._roles_existed:
            self.registry.load(min(missing))  # raises the error
        if missing != self._missing:
            logger.error(
                "%s: retraining has deleted %s; it is not used any longer",
                self._name,
                ", ".join(sorted(missing)),
            )
            self._missing = missing
        split = None if roles.split in missing else roles.split
        return Roles(None if roles.shadow in missing else roles.shadow, split, roles.share if split else 0.0)

    def _write(
        self, versions: list[Version], days: list[str], settings: ServiceSettings, names: dict[str, str]
    ) -> None:
        from deep_interest.retraining.scoring import encode_current_log  # noqa: PLC0415  # imports torch
        from deep_interest.training.parameters import TrainingOptions  # noqa: PLC0415

        tables = read_days(self._days, days, reading_of(self._settings))
        columns = self._settings.features
        context = {name: tables.shown[name].head(1) for name in columns.context}
        for version in versions:
            current = encode_current_log(tables, columns, version, context)
            facts = SnapshotFacts(
                experiment=self._name, version=version.id, columns=columns,
                max_len=TrainingOptions.model_validate(version.manifest["training"]).max_len,
                log_end=int(tables.behaviors["time"].max()), last_day=days[-1],
            )  # fmt: skip
            save_snapshot(
                settings.snapshots / names[version.id], facts, version, current.behaviors, current.features,
                current.log.users, current.log.items,
            )  # fmt: skip


def read_token(file: str | None) -> str | None:
    """Return the token of a file, or of the environment variable ``DEEP_INTEREST_TOKEN``.

    Raises:
        InputError: the file cannot be read, or the token is empty or not printable ASCII.
    """
    if file is None:
        token = os.environ.get(TOKEN_VARIABLE)
        if token is None:
            return None
    else:
        try:
            token = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"--token-file: {file} cannot be read ({error})") from error
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(
            "the token is empty, or has blanks or characters other than printable ASCII; choose another one"
        )
    return token

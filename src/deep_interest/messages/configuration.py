"""Reading the project's configuration with Kedro's loader, and messages for what is wrong in it."""

import os
import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from kedro.config import MissingConfigException
from kedro.framework.project import settings
from omegaconf.errors import OmegaConfBaseException

from deep_interest.config import check_files, configuration_files, locate
from deep_interest.errors import InputError, did_you_mean

_GLOB = "[]*?{}"
_ENTRY = re.compile(r"[Dd]ataset '([^']+)'")
_TYPE = re.compile(r"Dataset '(\w+)' not found in '([\w.]+)'")


class Configuration:
    """The configuration of a project in one environment.

    Args:
        loader: Kedro's configuration loader.
    """

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self.conf = Path(loader.conf_source)
        self.environments = [loader.base_env, loader.env or loader.default_run_env]

    def parameters(self) -> dict[str, Any]:
        """Return the parameters, once globals and credentials are checked, which Kedro reads by itself.

        Raises:
            InputError: the environment does not exist, a file is not valid YAML, or two files define the same key.
        """
        _check_folder(self.conf, self.environments)
        check_files(self.conf, self.environments, ("globals", "credentials"))
        try:
            return self._read("parameters")
        except MissingConfigException as error:
            raise InputError(str(error)) from error
        except OmegaConfBaseException as error:
            raise InputError(self.interpolation_message(error)) from error
        except ValueError as error:  # Kedro: two files of one environment define the same key
            raise InputError(
                f"{error}. Define each key in one file only; choose a name for your dataset that is not taken."
            ) from error

    def catalog(self) -> dict[str, Any]:
        """Return the entries of the catalog.

        Raises:
            InputError: a file is not valid YAML.
        """
        return self._read("catalog")

    def _read(self, kind: str) -> dict[str, Any]:
        """Read the files of a kind; if that fails, check them one by one: Kedro's message does not always name file and line."""
        try:
            return self.loader[kind]
        except Exception:
            check_files(self.conf, self.environments, [kind])
            raise

    def globals(self) -> dict[str, Any]:
        """Return the values of ``globals.yml``.

        Raises:
            InputError: ``data``, the folder of all files that runs write, is missing.
        """
        values = self.loader["globals"]
        if not isinstance(values.get("data"), str):
            raise InputError(
                f"{self.conf / self.environments[0] / 'globals.yml'}: data is missing; set it to the folder of all files that runs "
                "write (data: data)"
            )
        return values

    def credentials(self) -> dict[str, Any]:
        """Return the credentials, which need not exist."""
        try:
            return self.loader["credentials"]
        except MissingConfigException:
            return {}

    def locate(self, path: Sequence[str], *, kind: str = "parameters") -> str:
        """Say which file and line, or ``--params``, sets a key, as the beginning of a message; empty if none does."""
        runtime: Any = self.loader.runtime_params or {}
        for part in path:
            if not isinstance(runtime, dict) or part not in runtime:
                break
            runtime = runtime[part]
        else:
            if kind == "parameters":
                return "--params: "
        position = locate(self.conf, self.environments, path, kind=kind)
        return f"{position}: " if position else ""

    def catalog_message(self, text: str) -> str:
        """Add file and line to Kedro's message about an entry of the catalog, and the nearest name of a dataset's type."""
        if unknown := _TYPE.match(text):
            name, package = unknown.groups()
            where = self._line_with(f"{package}.{name}")
            return f"{where}type: {package}.{name} is not a dataset of kedro-datasets{did_you_mean(name, _datasets_in(package))}"
        entry = _ENTRY.search(text)
        where = self.locate(entry[1].split("."), kind="catalog") if entry else ""
        return f"{where}{' '.join(text.split())}"

    def _line_with(self, text: str) -> str:
        """Return the first line of the catalog that contains a text, as the beginning of a message."""
        for environment in reversed(self.environments):
            for file in configuration_files(self.conf / environment, "catalog"):
                for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                    if text in line:
                        return f"{file.relative_to(self.conf.parent)}, line {number}: "
        return ""

    def interpolation_message(self, error: OmegaConfBaseException) -> str:
        """Describe a ``${…}`` of a YAML file that cannot be resolved."""
        key = str(getattr(error, "full_key", "") or "")
        where = next((found for kind in ("catalog", "parameters", "globals") if key and (found := self.locate(key.split("."), kind=kind))), "")  # fmt: skip
        problem = str(error).splitlines()[0].rstrip(".")
        hint = ""
        if (name := re.search(r"[Gg]lobals key '([^']+)'", problem)) or (
            name := re.search(r"'globals:([^']+)'", problem)
        ):
            hint = did_you_mean(name[1], self.loader["globals"])
        return f"{where}{key + ': ' if key else ''}{problem}; correct the name in ${{…}}{hint}"


def _check_folder(conf: Path, environments: Sequence[str]) -> None:
    """Require that the environments exist, and that Kedro's loader can read the folder of the project."""
    if odd := sorted(set(str(conf)) & set(_GLOB)):
        raise InputError(
            f"{conf.parent}: the path of the project contains {' and '.join(odd)}, which Kedro reads as part of a pattern; "
            "rename the folder"
        )
    if conf.is_file():
        raise InputError(
            f"--conf-source: {conf} is an archive, expected a folder; unpack it (tar -xzf {conf}) and name the folder conf in it"
        )
    if not conf.is_dir():
        raise InputError(f"--conf-source: {conf} is not a folder of configuration files")
    folders = sorted(path.name for path in conf.iterdir() if path.is_dir() and path.name[0] not in "._")
    for name in environments:
        if name not in folders:
            raise InputError(
                f"--env: {name} is not an environment; the environments are {', '.join(folders)}, the folders of {conf}"
                f"{did_you_mean(name, folders)}"
            )


def _datasets_in(package: str) -> list[str]:
    """Return the names of the datasets in a package of kedro-datasets."""
    try:
        return dir(import_module(f"kedro_datasets.{package}"))
    except ImportError:
        return []


def open_configuration(
    project: Path,
    *,
    env: str | None = None,
    conf_source: str | None = None,
    parameters: dict[str, Any] | None = None,
) -> Configuration:
    """Open the configuration of a project as a session would.

    Args:
        project: root of the project, which Kedro has been configured for.
        env: environment; ``KEDRO_ENV`` or the default if left out.
        conf_source: folder of the environments, if it is not that of the project.
        parameters: parameters of the command line.

    Raises:
        InputError: globals are not valid YAML, or the environment does not exist.
    """
    conf, arguments = conf_source or str(project / settings.CONF_SOURCE), settings.CONFIG_LOADER_ARGS
    env = env or os.environ.get("KEDRO_ENV")
    environments = [arguments["base_env"], env or arguments["default_run_env"]]
    _check_folder(Path(conf), environments)
    check_files(Path(conf), environments, ["globals"])  # before the loader, which reads them at once
    loader = settings.CONFIG_LOADER_CLASS(conf_source=conf, env=env, runtime_params=parameters, **arguments)
    return Configuration(loader)

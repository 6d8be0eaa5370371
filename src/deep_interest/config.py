"""The dataset blocks that the configuration holds, for what must know their names before Kedro loads parameters."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf

from deep_interest.errors import InputError

_ADVICE = "Indent by spaces; put texts with any of ? : # @ { } into quotes"
_BESIDE_THE_CODE = Path(__file__).resolve().parents[2] / "conf"


def dataset_blocks(conf: Path | None = None, environment: str | None = None) -> dict[str, dict[str, Any]]:
    """The blocks below ``datasets`` of all parameter files of ``base`` and of one environment, merged key by key.

    Args:
        conf: the folder of the environments; the project's own if left out.
        environment: its name; else what ``KEDRO_ENV`` says, else ``local``.
    """
    if conf is None:
        conf = _BESIDE_THE_CODE if _BESIDE_THE_CODE.is_dir() else Path("conf")
    merged = OmegaConf.create()
    for name in ("base", environment or os.environ.get("KEDRO_ENV") or "local"):
        for file in _parameter_files(conf / name):
            whole = _load(file)
            if OmegaConf.is_dict(whole):
                merged = OmegaConf.merge(merged, {"datasets": whole.get("datasets") or {}})
    blocks = OmegaConf.to_container(merged).get("datasets", {})
    return {name: block for name, block in blocks.items() if isinstance(block, dict)}


def check_files(conf: Path, environments: Iterable[str]) -> None:
    """Read every parameter file.

    Raises:
        InputError: one is no YAML, or has a key twice.
    """
    for name in dict.fromkeys(environments):
        for file in _parameter_files(conf / name):
            _load(file)


def _load(file: Path) -> Any:
    try:
        return OmegaConf.load(file)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = " ".join(str(error.problem).split())
        advice = "Keep one of them" if "duplicate" in problem else _ADVICE
        raise InputError(f"{file}{place}: {problem}. {advice}.") from error


def _parameter_files(folder: Path) -> list[Path]:
    """As Kedro finds them: ``parameters*`` and ``parameters*/**``, YAML or JSON."""
    found = {*folder.glob("**/parameters*"), *folder.glob("**/parameters*/**/*")}
    return sorted(file for file in found if file.is_file() and file.suffix in (".yml", ".yaml", ".json"))


def as_list(value: Any) -> Any:
    """Accept a list in the form that ``--params`` allows: commas separate parameters there, so ``seeds=1 2 3`` has spaces.

    Returns:
        The words of a string, a single number as a list of one, anything else unchanged.
    """
    if isinstance(value, str):
        return value.split()
    return [value] if isinstance(value, int) else value

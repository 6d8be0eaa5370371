"""Read the configuration before Kedro does: the names of the pipelines depend on the datasets in it."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf

from deep_interest.errors import InputError

_ADVICE = "Indent with spaces; quote strings that contain any of ? : # @ { }"
_PROJECT_CONF = Path(__file__).resolve().parents[2] / "conf"


def dataset_blocks(conf: Path | None = None, environment: str | None = None) -> dict[str, dict[str, Any]]:
    """Return the blocks under ``datasets`` of all parameter files, those of the environment merged into those of ``base``.

    Args:
        conf: folder of the environments; ``conf`` of the project if left out.
        environment: name of the environment; the value of ``KEDRO_ENV`` or ``local`` if left out.
    """
    if conf is None:
        conf = _PROJECT_CONF if _PROJECT_CONF.is_dir() else Path("conf")
    merged: Any = OmegaConf.create()
    for name in ("base", environment or os.environ.get("KEDRO_ENV") or "local"):
        for file in _parameter_files(conf / name):
            content = _load(file)
            if OmegaConf.is_dict(content):
                merged = OmegaConf.merge(merged, {"datasets": content.get("datasets") or {}})
    blocks: Any = OmegaConf.to_container(merged)
    return {name: block for name, block in blocks.get("datasets", {}).items() if isinstance(block, dict)}


def check_files(conf: Path, environments: Iterable[str]) -> None:
    """Parse every parameter file of some environments.

    Raises:
        InputError: a file is not valid YAML or defines a key twice.
    """
    for name in dict.fromkeys(environments):
        for file in _parameter_files(conf / name):
            _load(file)


def _load(file: Path) -> Any:
    try:
        return OmegaConf.load(file)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        position = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = " ".join(str(error.problem).split())
        advice = "Keep only one of them" if "duplicate" in problem else _ADVICE
        raise InputError(f"{file}{position}: {problem}. {advice}.") from error


def _parameter_files(folder: Path) -> list[Path]:
    """Find parameter files as Kedro does: ``parameters*`` and ``parameters*/**``, YAML or JSON."""
    files = {*folder.glob("**/parameters*"), *folder.glob("**/parameters*/**/*")}
    return sorted(file for file in files if file.is_file() and file.suffix in (".yml", ".yaml", ".json"))


def rename_key(block: Any, old: str, new: str) -> Any:
    """Accept the former name of a key; if both name mappings, as in two files of the configuration, they are merged.

    Args:
        block: a block of the configuration; anything but a mapping is returned unchanged.
        old: former name.
        new: current name.

    Raises:
        ValueError: the block has both, and one is not a mapping.
    """
    if not isinstance(block, Mapping) or old not in block:
        return block
    if isinstance(block.get(new), Mapping) and isinstance(block[old], Mapping):
        block = {**block, old: {**block[new], **block[old]}}
    elif block.get(new) is not None:
        raise ValueError(f"{new} and {old}, its former name, are both set; remove {old}")
    return {**{key: value for key, value in block.items() if key != old}, new: block[old]}


def as_list(value: Any) -> Any:
    """Accept a list in the form that ``--params`` allows: commas separate parameters there, so ``seeds=1 2 3`` has spaces.

    Returns:
        The words of a string, a single number as a list of one, anything else unchanged.
    """
    if isinstance(value, str):
        return value.split()
    return [value] if isinstance(value, int) else value

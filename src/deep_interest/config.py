"""Read the configuration before Kedro does: the names of the pipelines depend on the datasets in it."""

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from io import StringIO
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf

from deep_interest.errors import InputError

_ADVICE = "Indent with spaces; quote strings that contain any of ? : # @ { }"
KINDS = ("parameters", "catalog", "globals", "credentials")
"""Kinds of configuration files."""
_PROJECT_CONF = Path(__file__).resolve().parents[2] / "conf"


def dataset_blocks(conf: Path | None = None, environment: str | None = None) -> dict[str, dict[str, Any]]:
    """Return the blocks under ``datasets`` of all parameter files; the arguments are those of `blocks_under`."""
    return blocks_under("datasets", conf, environment)


def blocks_under(
    key: str, conf: Path | None = None, environment: str | None = None
) -> dict[str, dict[str, Any]]:
    """Return the blocks under a key of all parameter files, those of the environment merged into those of ``base``.

    Args:
        key: first part of the parameters, ``datasets``, ``abtests`` or ``ope``.
        conf: folder of the environments; ``conf`` of the project if left out.
        environment: name of the environment; the value of ``KEDRO_ENV`` or ``local`` if left out.
    """
    if conf is None:
        conf = _PROJECT_CONF if _PROJECT_CONF.is_dir() else Path("conf")
    merged: Any = OmegaConf.create()
    for name in ("base", environment or os.environ.get("KEDRO_ENV") or "local"):
        for file in configuration_files(conf / name, "parameters"):
            if block := _load(file).get(key):
                merged = OmegaConf.merge(merged, {key: block})
    blocks: Any = OmegaConf.to_container(merged)
    return {name: block for name, block in blocks.get(key, {}).items() if isinstance(block, dict)}


def check_files(conf: Path, environments: Iterable[str], kinds: Sequence[str] = KINDS) -> None:
    """Parse every file of some kinds of some environments.

    Raises:
        InputError: a file is not valid YAML or defines a key twice.
    """
    for name in dict.fromkeys(environments):
        for kind in kinds:
            for file in configuration_files(conf / name, kind):
                _load(file)


def locate(conf: Path, environments: Iterable[str], path: Sequence[str], *, kind: str = "parameters") -> str:
    """Say where a key is set in the configuration.

    Args:
        conf: folder of the environments.
        environments: environments in the order in which they are read; a later one overrides an earlier one.
        path: the key, part by part, such as ``["training", "seeds"]``; parts that no file has are ignored at the end.
        kind: kind of file: one of `KINDS`.

    Returns:
        ``<file>, line <n>``, relative to the project's folder; empty if no file sets the key.
    """
    found, longest = "", 0
    for name in dict.fromkeys(environments):
        for file in configuration_files(conf / name, kind):
            depth, line = _position(
                yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader), path
            )
            if depth and depth >= longest:
                found, longest = f"{file.relative_to(conf.parent)}, line {line}", depth
    return found


def _position(node: Any, path: Sequence[str]) -> tuple[int, int]:
    """Return how many parts of a path a YAML node has, and the line of the last one."""
    if not path:
        return 0, 0
    if isinstance(node, yaml.SequenceNode) and path[0].isdigit() and int(path[0]) < len(node.value):
        item = node.value[int(path[0])]
        depth, line = _position(item, path[1:])
        return depth + 1, line or item.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        if path[0].isdigit():  # a single block in place of a list of blocks
            return _position(node, path[1:])
        for length in range(len(path), 0, -1):  # names of catalog entries contain dots
            for key, value in node.value:
                if key.value == ".".join(path[:length]):
                    depth, line = _position(value, path[length:])
                    return depth + length, line or key.start_mark.line + 1
        merged = [value for key, value in node.value if key.tag == "tag:yaml.org,2002:merge"]
        return max((_position(value, path) for value in merged), default=(0, 0))
    return 0, 0


def _load(file: Path) -> Any:
    """Parse a file, or return what was parsed from the same text before; not to be changed."""
    try:
        content = _parsed(file.read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        position = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = " ".join(str(error.problem).split())
        advice = "Keep only one of them" if "duplicate" in problem else _ADVICE
        raise InputError(f"{file}{position}: {problem}. {advice}.") from error
    except (OSError, UnicodeDecodeError, ValueError, yaml.YAMLError) as error:
        if isinstance(error, OSError):
            raise InputError(
                f"{file}: this file cannot be read ({error.strerror}); give yourself access to it"
            ) from error
        raise InputError(
            f"{file}: this is not a YAML file of names and values ({' '.join(str(error).split())[:200]})"
        ) from error
    if not OmegaConf.is_dict(content):
        raise InputError(f"{file}: found a list, expected names and values (name: value)")
    return content


@lru_cache(maxsize=512)
def _parsed(text: str) -> Any:
    """Parse a text once per process: a command needs the files for the names of pipelines, for datasets and for messages."""
    return OmegaConf.load(StringIO(text))


def configuration_files(folder: Path, kind: str) -> list[Path]:
    """Find the files of a kind as Kedro does: ``<kind>*`` and ``<kind>*/**``, YAML or JSON.

    Args:
        folder: folder of an environment.
        kind: one of `KINDS`.
    """
    files = {*folder.glob(f"**/{kind}*"), *folder.glob(f"**/{kind}*/**/*")}
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

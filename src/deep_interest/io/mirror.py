"""Copies of files in an object store on the local disk."""

import json
import logging
import shutil
from pathlib import Path
from typing import Any

from deep_interest.io.atomic import atomic_path

logger = logging.getLogger(__name__)

_INDEX = ".mirror.json"


def mirror(file_system: Any, source: str, folder: Path) -> Path:
    """Copy a file or folder of an object store, and remove local copies of what the store does not have any more.

    Files that have not changed since the last call are not copied again: size, time and ETag decide, as far as the store has them.
    Each file appears whole or not at all.

    Args:
        file_system: file system of fsspec.
        source: file or folder in it, which exists.
        folder: local path of the copy; the parent of a single file has an index of its copies.

    Returns:
        ``folder``.
    """
    is_file = file_system.isfile(source)
    found = {source: file_system.info(source)} if is_file else file_system.find(source, detail=True)
    root, base = (folder.parent, source.rpartition("/")[0]) if is_file else (folder, source)
    index_file = root / _INDEX
    old = json.loads(index_file.read_text(encoding="utf-8")) if index_file.exists() else {}
    new = {path.removeprefix(base).lstrip("/"): _state(info) for path, info in found.items()}
    changed = [name for name in new if old.get(name) != new[name] or not (root / name).exists()]
    if changed:
        logger.info("copying %d of %d files from %s to %s", len(changed), len(new), source, root)
    for name in changed:
        with atomic_path(root / name) as temporary:
            file_system.get_file(f"{base}/{name}", str(temporary))
    removed = [] if is_file else [name for name in old if name not in new]
    for name in removed:
        (root / name).unlink(missing_ok=True)
    for empty in {(root / name).parent for name in removed} - {root}:
        if not any(empty.iterdir()):
            shutil.rmtree(empty)
    with atomic_path(index_file) as temporary:
        temporary.write_text(json.dumps((old if is_file else {}) | new, indent=1), encoding="utf-8")
    return folder


def _state(info: dict[str, Any]) -> list[str]:
    return [str(info.get(key)) for key in ("size", "LastModified", "ETag", "created", "mtime")]

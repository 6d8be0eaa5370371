"""Extract categories from Amazon's metadata: one Python literal per line, which is parsed but never evaluated."""

import ast
import json
import logging
import re
from collections.abc import Container, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

from deep_interest.errors import InputError
from deep_interest.sources.raw_files import require_file, text_lines

UNKNOWN_CATEGORY = "unknown"
_ADVICE = "Fix the line, or set on_bad_line to 'skip' to skip and count such lines"
_SKIP_REASON = "metadata line without asin or with malformed categories"

_QUOTED = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_LIST = rf"\[\s*(?:{_QUOTED}\s*(?:,\s*{_QUOTED}\s*)*)?\]"
_STRING = re.compile(_QUOTED)
_ASIN = re.compile(r"""(['"])asin\1\s*:\s*(['"])([^'"]+)\2""")
_KEY = re.compile(r"""(['"])categories\1\s*:\s*""")
_LISTS = re.compile(rf"\[\s*(?:{_LIST}\s*(?:,\s*{_LIST}\s*)*)?\]")
_LAST = re.compile(rf"({_QUOTED})\s*\]\s*\]$")  # within a match of _LISTS
_log = logging.getLogger(__name__)


def item_categories(
    metadata: Path | None, items: Sequence[str], *, on_bad_line: Literal["error", "skip"]
) -> tuple[list[str], dict[str, int]]:
    """Return the categories of ``items``.

    A category is the last element of the item's last category list, or ``unknown`` if the metadata file or the item's
    categories are missing; one warning states how many. Lines may be Python literals or JSON.

    Args:
        metadata: metadata file, plain or .gz, or None.
        items: item ids (``asin``).
        on_bad_line: ``error`` to raise at an invalid line, ``skip`` to skip and count such lines.

    Returns:
        The category of each item, and the number of skipped lines as ``{reason: lines}``.

    Raises:
        InputError: the file is empty or truncated; or, unless ``on_bad_line="skip"``, a line has no ``asin``, or the
            line of one of ``items`` has malformed ``categories``.
    """
    category_by_item: dict[str, str | None] = dict.fromkeys(items)
    skipped = 0
    if metadata is None or not Path(metadata).exists():
        _log.warning("No metadata file%s; all categories are unknown.", f" at {metadata}" if metadata else "")
    else:
        skipped = _read_categories(category_by_item, Path(metadata), on_bad_line)
    missing = sum(category is None for category in category_by_item.values())
    if missing:
        _log.warning(
            "%d of %d items have no category; using %r.", missing, len(category_by_item), UNKNOWN_CATEGORY
        )
    categories = [category or UNKNOWN_CATEGORY for category in category_by_item.values()]
    return categories, {_SKIP_REASON: skipped} if skipped else {}


def _read_categories(category_by_item: dict[str, str | None], metadata: Path, on_bad_line: str) -> int:
    require_file(metadata)
    skipped = 0
    for line_number, line in text_lines(metadata):
        try:
            asin, category = _parse(line.decode("utf-8"), category_by_item)
        except (ValueError, SyntaxError) as error:
            if on_bad_line == "error":
                raise InputError(f"{metadata}, line {line_number}: {error}. {_ADVICE}.") from error
            skipped += 1
            continue
        if asin in category_by_item and category_by_item[asin] is None:
            category_by_item[asin] = category
    return skipped


def _parse(line: str, items: Container[str]) -> tuple[str, str | None]:
    match = _ASIN.search(line)
    if match is None:
        raise ValueError("found no 'asin', expected one in each line")
    asin = match[3]
    return asin, _last_category(line) if asin in items else None


def _last_category(line: str) -> str | None:
    keys = list(_KEY.finditer(line, max(line.find("categories") - 1, 0)))
    if len(keys) > 1:  # a description may contain the word; a real key is a whole string
        strings = {string.start() for string in _STRING.finditer(line)}
        keys = [key for key in keys if key.start() in strings]
    if not keys:
        return None
    key = keys[0]
    lists = _LISTS.match(line, key.end())
    if lists is None:
        excerpt = line[key.end() : key.end() + 60]
        raise ValueError(f"column categories: found {excerpt!r}, expected lists of category names")
    return _last_element(lists[0], is_json=key[1] == '"')


def _last_element(lists: str, *, is_json: bool) -> str | None:
    last = _LAST.search(lists)
    return _parse_string(last[1], is_json=is_json) if last else None


@lru_cache(maxsize=1 << 16)  # many products share a category
def _parse_string(literal: str, *, is_json: bool) -> str:
    string = json.loads(literal) if is_json else ast.literal_eval(literal)
    string.encode()  # reject a lone surrogate here, not when the table is written
    return string

"""Categories out of Amazon's metadata, which are Python literals, one a line: not JSON, and never evaluated."""

import ast
import json
import logging
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

from deep_interest.errors import InputError
from deep_interest.sources.raw_files import require_file, text_lines

UNKNOWN_CATEGORY = "unknown"
_ADVICE = "Mend the line, or set on_bad_line to 'skip': bad lines are then left out and counted"
_BAD_LINE = "metadata line without asin or with broken categories"

_TEXT = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_LIST = rf"\[\s*(?:{_TEXT}\s*(?:,\s*{_TEXT}\s*)*)?\]"
_STRING = re.compile(_TEXT)
_ASIN = re.compile(r"""(['"])asin\1\s*:\s*(['"])([^'"]+)\2""")
_KEY = re.compile(r"""(['"])categories\1\s*:\s*""")
_LISTS = re.compile(rf"\[\s*(?:{_LIST}\s*(?:,\s*{_LIST}\s*)*)?\]")
_LAST = re.compile(rf"({_TEXT})\s*\]\s*\]$")  # of lists that _LISTS has matched
_log = logging.getLogger(__name__)


def item_categories(
    metadata: Path | None, items: Sequence[str], *, on_bad_line: Literal["error", "skip"]
) -> tuple[list[str], dict[str, int]]:
    """Return the category of each of ``items`` and the metadata lines left out, as ``{reason: lines}``.

    A category is the last element of the item's last category list; ``unknown`` where the metadata are absent or
    have none, with one warning that counts them. True JSON lines are understood as well as Python literals.

    Raises:
        InputError: for an empty or truncated file; for a line without ``asin`` or, of one of ``items``, with broken
            ``categories``, unless ``on_bad_line="skip"``.
    """
    known: dict[str, str | None] = dict.fromkeys(items)
    skipped = 0
    if metadata is None or not Path(metadata).exists():
        _log.warning("No metadata file%s.", f" at {metadata}" if metadata else "")
    else:
        skipped = _read_into(known, Path(metadata), on_bad_line)
    without = sum(category is None for category in known.values())
    if without:
        _log.warning("%d of %d items have no category: it is %r.", without, len(known), UNKNOWN_CATEGORY)
    categories = [category or UNKNOWN_CATEGORY for category in known.values()]
    return categories, {_BAD_LINE: skipped} if skipped else {}


def _read_into(known: dict[str, str | None], metadata: Path, on_bad_line: str) -> int:
    require_file(metadata)
    skipped = 0
    for number, line in text_lines(metadata):
        try:
            asin, category = _parse(line.decode("utf-8"), known)
        except (ValueError, SyntaxError) as error:
            if on_bad_line == "error":
                raise InputError(f"{metadata}, line {number}: {error}. {_ADVICE}.") from error
            skipped += 1
            continue
        if asin in known and known[asin] is None:
            known[asin] = category
    return skipped


def _parse(line: str, known: dict[str, str | None]) -> tuple[str, str | None]:
    found = _ASIN.search(line)
    if found is None:
        raise ValueError("found no 'asin', expected one in each line")
    asin = found[3]
    return asin, _last_category(line) if asin in known else None


def _last_category(line: str) -> str | None:
    keys = list(_KEY.finditer(line, max(line.find("categories") - 1, 0)))
    if len(keys) > 1:  # a description may quote the word; a true key is a string of its own
        strings = {string.start() for string in _STRING.finditer(line)}
        keys = [key for key in keys if key.start() in strings]
    if not keys:
        return None
    key = keys[0]
    lists = _LISTS.match(line, key.end())
    if lists is None:
        found = line[key.end() : key.end() + 60]
        raise ValueError(f"column categories: found {found!r}, expected lists of category names")
    return _last_element(lists[0], is_json=key[1] == '"')


def _last_element(lists: str, *, is_json: bool) -> str | None:
    last = _LAST.search(lists)
    return _text(last[1], is_json=is_json) if last else None


@lru_cache(maxsize=1 << 16)  # many products are of one kind
def _text(literal: str, *, is_json: bool) -> str:
    text = json.loads(literal) if is_json else ast.literal_eval(literal)
    text.encode()  # a lone surrogate is not text: an error here, not when the table is written
    return text

"""Categories out of metadata that are Python literals, JSON, or malformed."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.raw_files import write_lines

from deep_interest.errors import InputError
from deep_interest.sources.amazon_metadata import item_categories


def category_of(tmp_path: Path, line: str) -> str:
    path = write_lines(tmp_path / "meta.json.gz", [line])
    categories, left_out = item_categories(path, ["I1"], on_bad_line="error")
    assert left_out == {}
    return categories[0]


@pytest.mark.parametrize(
    ("line", "category"),
    [
        ("{'asin': 'I1', 'categories': [['Beauty', 'Hair']]}", "Hair"),
        ("{'asin': 'I1', 'categories': [['A', 'B'], ['C', 'D', 'E']], 'title': 'x'}", "E"),
        ("""{'asin': 'I1', 'categories': [["Men's Shoes", 'Say "hi", [x]']]}""", 'Say "hi", [x]'),
        (r"{'asin': 'I1', 'categories': [['Caf\xe9 \'n\' tea']]}", "Café 'n' tea"),
        ('{"asin": "I1", "categories": [["A", "Caf\\u00e9 \\ud83d\\ude00"]]}', "Café 😀"),
        ("{'description': \"all 'categories' of things\", 'asin': 'I1', 'categories': [['A']]}", "A"),
        ("{'asin': 'I1', 'description': 'categories: none'}", "unknown"),
        ("""{'asin': 'I1', 'description': "See 'categories': [['B']]", 'categories': [['A']]}""", "A"),
        ("{'asin': 'I1', 'categories': [[]]}", "unknown"),
        ("{'asin': 'I1', 'categories': []}", "unknown"),
        ("{'asin': 'I2', 'categories': [['A']]}", "unknown"),
    ],
)
def test_category_is_the_last_element_of_the_last_list_or_unknown(
    tmp_path: Path, line: str, category: str
) -> None:
    assert category_of(tmp_path, line) == category


TEXT = st.text(max_size=12) | st.sampled_from(
    ["'categories': [['x']]", '"asin": "I9"', "Men's", 'a "b"', "\\", "[[", "'"]
)


@pytest.mark.slow
@settings(deadline=None)
@given(before=TEXT, lists=st.lists(st.lists(TEXT, max_size=3), max_size=3), after=TEXT, as_json=st.booleans())
def test_any_literal_is_read_as_python_or_json_would_read_it(
    tmp_path_factory: pytest.TempPathFactory, before: str, lists: list[list[str]], after: str, as_json: bool
) -> None:
    entry = {"asin": "I1", "description": before, "categories": lists, "title": after}
    expected = lists[-1][-1] if lists and lists[-1] else ""
    line = json.dumps(entry) if as_json else repr(entry)
    assert category_of(tmp_path_factory.mktemp("meta"), line) == (expected or "unknown")


def test_a_literal_is_never_evaluated(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    line = f"{{'asin': 'I1', 'categories': [[open({str(witness)!r}, 'w')]]}}"
    with pytest.raises(InputError, match="line 1: column categories"):
        category_of(tmp_path, line)
    assert not witness.exists()


@pytest.mark.parametrize("line", ["{'title': 'x'}", "{'asin': 'I1', 'categories': [['A'}", "not at all"])
def test_a_malformed_line_is_an_error_or_is_skipped_and_counted(tmp_path: Path, line: str) -> None:
    path = write_lines(tmp_path / "meta.json", ["{'asin': 'I2', 'categories': [['A']]}", line])
    with pytest.raises(InputError, match=r"meta.json, line 2: "):
        item_categories(path, ["I1", "I2"], on_bad_line="error")
    categories, left_out = item_categories(path, ["I1", "I2"], on_bad_line="skip")
    assert categories == ["unknown", "A"]
    assert left_out == {"metadata line without asin or with malformed categories": 1}


def test_empty_or_truncated_metadata_are_an_error(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "meta.json.gz", ["{'asin': 'I1', 'categories': [['A']]}"])
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match="truncated or damaged"):
        item_categories(path, ["I1"], on_bad_line="skip")
    path.write_bytes(b"")
    with pytest.raises(InputError, match="empty"):
        item_categories(path, ["I1"], on_bad_line="skip")

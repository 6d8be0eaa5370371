"""Categories out of metadata that are Python literals, JSON, or broken."""

from pathlib import Path

import pytest
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


def test_a_literal_is_never_evaluated(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    line = f"{{'asin': 'I1', 'categories': [[open({str(witness)!r}, 'w')]]}}"
    with pytest.raises(InputError, match="line 1: column categories"):
        category_of(tmp_path, line)
    assert not witness.exists()


@pytest.mark.parametrize("line", ["{'title': 'x'}", "{'asin': 'I1', 'categories': [['A'}", "not at all"])
def test_a_broken_line_is_named_or_skipped_and_counted(tmp_path: Path, line: str) -> None:
    path = write_lines(tmp_path / "meta.json", ["{'asin': 'I2', 'categories': [['A']]}", line])
    with pytest.raises(InputError, match=r"meta.json, line 2: "):
        item_categories(path, ["I1", "I2"], on_bad_line="error")
    categories, left_out = item_categories(path, ["I1", "I2"], on_bad_line="skip")
    assert categories == ["unknown", "A"]
    assert left_out == {"metadata line without asin or with broken categories": 1}


def test_empty_or_truncated_metadata_are_an_error(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "meta.json.gz", ["{'asin': 'I1', 'categories': [['A']]}"])
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match="truncated or damaged"):
        item_categories(path, ["I1"], on_bad_line="skip")
    path.write_bytes(b"")
    with pytest.raises(InputError, match="empty"):
        item_categories(path, ["I1"], on_bad_line="skip")

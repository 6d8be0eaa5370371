"""Advice in the messages about declarations that do not fit their files."""

import pytest
from support.tables import declare_impressions, read, write

from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.sources.tables.declaration import Source
from deep_interest.sources.tables.reader import read_tables


def message_of(folder, text: str | bytes, **behaviors: object) -> str:
    """The message about a log with this content."""
    (folder / "log.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    source = Source.model_validate({"behaviors": {"files": "log.csv", **behaviors}})
    with pytest.raises(InputError) as caught:
        read_tables(folder, source, FeatureColumns(item=("item_id",)))
    return str(caught.value)


@pytest.mark.parametrize(
    ("times", "formats"),
    [
        (["11/13/2019 9:05:58 AM", "11/12/2019 12:00:00 PM"], '"%m/%d/%Y %I:%M:%S %p"'),
        (["24.03.2024 09:16", "01.04.2024 23:59"], '"%d.%m.%Y %H:%M"'),
        (["03/04/2024", "05/06/2024"], '"%m/%d/%Y" or "%d/%m/%Y"'),
        (["13/04/2024", "05/06/2024"], '"%d/%m/%Y"'),
    ],
)
@pytest.mark.parametrize("declared", ["at", {"column": "at", "format": "%d.%m.%y %H:%M:%S"}])
def test_the_formats_that_fit_all_times_are_named(tmp_path, times, formats, declared):
    text = "user,item,at\n" + "".join(f"1,{k},{time}\n" for k, time in enumerate(times))
    assert message_of(tmp_path, text, time=declared).endswith(f"The values fit time: {{column: at, format: {formats}}}.")  # fmt: skip


def test_a_few_invalid_times_are_those_of_the_file(tmp_path):
    message = message_of(tmp_path, "user,item,time\n1,10,24.03.2024\n1,11,soon\n1,12,2024-03-24\n")
    assert message.endswith("set reading.on_bad_line to 'skip' to skip and count such rows.")
    message = message_of(tmp_path, "user,item,time\n1,10,soon\n1,11,later\n")
    assert message.endswith("expected a time. No row is valid: check source.behaviors.time.")


@pytest.mark.parametrize(
    ("text", "block", "hint"),
    [
        ("1,10,5\n2,11,6\n", {}, "if the file has no header, set names"),
        (
            "user;item;time\n1;10;5\n",
            {"delimiter": ","},
            "the first line has a single value: check delimiter and names",
        ),
        ("user,item\n1,10\n", {}, "if the rows have no times but are in order, set order: file"),
        ("user,sku,time\n1,10,5\n", {}, "the columns are user, sku, time"),
        ("users,item,time\n1,10,5\n", {}, "did you mean users?"),
    ],
)
def test_a_missing_column_may_be_a_missing_header_delimiter_or_time(tmp_path, text, block, hint):
    assert message_of(tmp_path, text, **block).endswith(hint)


def test_a_header_in_another_encoding_is_not_a_missing_column(tmp_path):
    message = message_of(tmp_path, "user,item,time,Größe\n1,10,5,1\n".encode("cp1252"))
    assert "log.csv: the file is not encoded in UTF-8" in message
    assert "encoding: cp1252" in message


def test_blanks_separate_values_only_if_nothing_else_does(tmp_path):
    source = {"names": ["user", "item"], "order": "file"}
    (tmp_path / "log.csv").write_text("1 10\n1 11\n")
    declared = Source.model_validate({"behaviors": {"files": "log.csv", **source}})
    tables = read_tables(tmp_path, declared, FeatureColumns(item=("item_id",)))
    assert tables.behaviors["item"].tolist() == [10, 11]
    assert "Expected Number of Columns: 2 Found: 1" in message_of(tmp_path, "1 10\n1 11 12\n", **source)
    assert "Found: 1" not in message_of(tmp_path, "1,1 10\n1,2 11\n", **source, rating="stars")


def test_lists_without_the_declared_separator_are_an_error(tmp_path):
    write(tmp_path, impressions="user,time,shown\n1,5,a-1 b-0\n2,6,\n3,7,c-1 d-0\n")
    declared = declare_impressions(sequence="shown", separator="|", label={"separator": "-"})
    with pytest.raises(InputError, match=r"column shown: no list contains the separator '\|', but most contain ' '; set source.impressions.separator"):  # fmt: skip
        read(tmp_path, FeatureColumns(), **declared)
    write(tmp_path, impressions="user,time,shown\n1,5,a-1\n2,6,b c-0\n")  # one item each
    assert read(tmp_path, FeatureColumns(), **declared).impressions["item"].tolist() == ["a", "b c"]


@pytest.mark.parametrize(("repeats", "noted"), [(3, 3), (2, None)])
def test_a_sequence_that_most_rows_repeat_is_noted(tmp_path, repeats, noted):
    write(tmp_path, log="user,seen,time\n2,10 11,7\n" + "1,10 11,5\n" * (repeats + 1))
    source = Source.model_validate({"behaviors": {"files": "log.csv", "sequence": "seen"}})
    note = "rows of behaviors with the same seen as another of the user (is it a history?)"
    assert read_tables(tmp_path, source, FeatureColumns(item=("item_id",))).notes.get(note) == noted

"""Advice in the messages about declarations that do not fit their files."""

from decimal import Decimal

import pandas as pd
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
            "the first line has a single value: check delimiter, names, and that the header is the first line",
        ),
        (
            "user,item\n1,10\n",
            {},
            "set time to the name of its column, or order: file if the rows have no times but are in order",
        ),
        (
            "user,sku,time\n1,10,5\n",
            {},
            "the columns are user, sku, time; set item to the name of its column",
        ),
        (
            "user,item,when\n1,10,5\n",
            {"time": "at %Y"},
            '; a time with a format is written as time: {column: NAME, format: "%d.%m.%Y"}',
        ),
        ("user,item,when\n1,10,5\n", {"time": "moment"}, "the columns are user, item, when"),
        (
            "Users 2024\n\nuser,item,time\n1,10,5\n",
            {"delimiter": "tab"},
            "and that the header is the first line",
        ),
        ("user, item,time\n1, 10,5\n", {}, "; did you mean ' item'?"),
        ("user,sku,time\n1,10,5\n", {"item": "id"}, "the columns are user, sku, time"),
        ("shop,no,item,time\n1,7,10,5\n", {"user": "shop, no"}, "; several columns are a list: [shop, no]"),
        (
            "user,item,time,Kind\n1,10,5,a\n",
            {"columns": {"Kind": "category"}},
            "; columns names the feature first: {category: Kind}",
        ),
        (
            "user,item,time,Größe\n1,10,5,1\n",
            {"encoding": "cp1252", "where": {"Größe": 1}},
            "; GrÃ¶ÃŸe is Größe in UTF-8: remove encoding",
        ),
        (
            "user,item,time,Preis €\n1,10,5,1\n".encode("cp1252"),
            {"encoding": "latin-1", "where": {"Preis €": 1}},
            r"; 'Preis \x80' has control characters: the encoding may be cp1252 (Windows), not iso8859-1",
        ),
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
    assert "separated by ','" in message_of(tmp_path, "1 10\n1 11 12\n", **source)
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


@pytest.mark.parametrize(
    ("text", "block", "hint"),
    [
        ("a\tb\tc\td\n" * 3, {"names": ["user", "item"], "order": "file"}, "names has 2 name(s), but the lines have 4 value(s) separated by '\\t', for example 'a\\tb\\tc\\td'; names has to name every column"),
        ("1 10\n2 11\n", {"names": "user, item", "order": "file"}, "the columns are user, item; write names as a list: [user, item]"),
        ("1 10\n2 11\n", {"names": "user, item", "order": "file", "delimiter": "space"}, "for example '1 10'; write names as a list: [user, item]"),
        ("1;10;5\n2;11;6\n", {"names": ["user", "item", "time"], "delimiter": ","}, "for example '1;10;5'; ';' fits: set delimiter to it, or remove delimiter"),
        ("1 2 3 4\n2 5 6\n", {"names": ["user", "items"], "sequence": "items", "order": "file"}, "put a tab after the user (for example sed 's/ /\\t/' FILE), and set sequence to the second name"),
        ("Exported today\nuser,item,time\n1,10,5\n", {}, "the header has 1 value(s), but the lines have 3 value(s) separated by ','"),
        ("user,item,time\n1,1,10,5\n2,1,11,6\n", {}, "for example '1,1,10,5'; check delimiter and quote, and that the header is the first line"),
    ],
)  # fmt: skip
def test_names_or_a_header_of_another_width_than_all_lines(tmp_path, text, block, hint):
    assert hint in message_of(tmp_path, text, **block)


def test_a_single_line_of_another_width_is_that_of_the_file(tmp_path):
    message = message_of(tmp_path, "user,item,time\n1,10,5\n1,11\n")
    assert "log.csv, line 3: expected 3 values, found 2, in '1,11'. Fix the line" in message
    message = message_of(tmp_path, "user,item,time\n1,10,5\n1,11,6,7,8\n")
    assert "line 3: expected 3 values, found more than 3, in '1,11,6,7,8'." in message


def test_the_file_of_many_with_the_bad_line_is_named(tmp_path):
    (tmp_path / "log1.csv").write_text("user,item,time\n1,10,5\n")
    (tmp_path / "log2.csv").write_text("user,item,time\n1,10,5\n1,Kä,se,5\n", encoding="cp1252")
    for encoding in ("cp1252", "latin-1"):
        message = message_of(tmp_path, "user,item,time\n1,10,5\n", files="log*.csv", encoding=encoding)
        assert "log2.csv, line 3: expected 3 values, found more than 3, in '1,Kä,se,5'." in message


def test_a_missing_feature_is_named_with_the_closest_column(tmp_path):
    write(tmp_path, items="item,Group,Price (€)\n10,a,1\n11,b,2\n")
    with pytest.raises(InputError, match=r"name its column, source.items.columns: \{price: Price \(€\)\}, or remove price from features.item"):  # fmt: skip
        read(tmp_path, FeatureColumns(item=("item_id", "price")))
    with pytest.raises(InputError, match=r"users: .*not found; the source has no users; declare source.users, or remove age from features.profile"):  # fmt: skip
        read(tmp_path, FeatureColumns(item=("item_id",), profile=("age",)))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("visit.csv", "Did you mean visits.csv?"),
        ("log-*.csv", "The folder has impressions.csv, items.csv, visits.csv."),
        ("deep/other.csv", "The folder has impressions.csv, items.csv, visits.csv."),
    ],
)
def test_a_missing_file_is_compared_with_those_of_the_folder(tmp_path, name, hint):
    write(tmp_path)
    with pytest.raises(InputError) as caught:
        read(tmp_path, behaviors={"files": name})
    assert str(caught.value).endswith(hint)


def test_a_missing_or_empty_folder_is_named(tmp_path):
    with pytest.raises(InputError, match=r"The folder is empty.$"):
        read(tmp_path)
    with pytest.raises(InputError, match=r"The folder .*/shop does not exist.$"):
        read(tmp_path / "shop")


@pytest.mark.parametrize(
    ("label", "shown", "hint"),
    [
        ("_", "a-1 b-0", "The values fit label: {separator: '-'}."),
        ("-", "a:1 b_0", "No row is valid: check source.impressions.sequence and its label."),
        ("-", "a b", "No row is valid: check source.impressions.sequence and its label."),
    ],
)
def test_the_separator_of_labels_is_named(tmp_path, label, shown, hint):
    write(tmp_path, impressions=f"user,time,shown\n1,5,{shown}\n")
    with pytest.raises(InputError) as caught:
        read(tmp_path, FeatureColumns(), **declare_impressions(sequence="shown", label={"separator": label}))
    assert str(caught.value).endswith(hint)


def test_a_list_in_the_column_of_the_item_is_not_skipped(tmp_path):
    lists = message_of(tmp_path, "user,item,time\n1,10 11,5\n2,,6\n3,12 13 14,7\n")
    assert "If the values are lists of ids, such as '10 11', set sequence or history instead of item" in lists
    single = message_of(tmp_path, "user,item,time\n1,10,5\n2,,6\n3,12 13,7\n")
    assert "lists of ids" not in single


def test_ratings_in_another_notation_name_it(tmp_path):
    message = message_of(tmp_path, 'user,item,time,stars\n1,10,5,"4,5"\n', rating="stars")
    assert message.endswith("expected a number. If it is a number, set decimal: comma in source.behaviors.")


def test_repeated_items_may_be_the_wrong_column(tmp_path):
    write(tmp_path, items="item,category\n10,a\n11,a\n12,a\n")
    declared = {"items": {"files": "items.csv", "item": "category", "columns": {"kind": "item"}}}
    with pytest.raises(InputError, match=r"item a has several rows \(1 different items in 3 rows\).*check that source.items.item is the column"):  # fmt: skip
        read(tmp_path, FeatureColumns(item=("item_id", "kind")), **declared)


@pytest.mark.parametrize(
    ("labels", "hint"),
    [
        (["1", "2", "2"], "The column's values are 2, 1: name those that count as clicks, label: {column: label, positive: …}."),
        (["yes", "", "yes"], "The column's values are yes, no value: name those that count as clicks, label: {column: label, positive: …}."),
        ([str(k) for k in range(9)], "The column has 9 different values (0, 1, 2, 3, 4, 5, 6, 7 …): check source.impressions.label."),
        (["0"] * 10 + ["maybe"], "set reading.on_bad_line to 'skip' to skip and count such rows."),
    ],
)  # fmt: skip
def test_labels_of_other_values_are_named_instead_of_skipped(tmp_path, labels, hint):
    write(
        tmp_path,
        impressions="user,item,time,label\n" + "".join(f"1,{k},5,{v}\n" for k, v in enumerate(labels)),
    )
    with pytest.raises(InputError) as caught:
        read(tmp_path, FeatureColumns())
    assert str(caught.value).endswith(hint)


@pytest.mark.parametrize(
    ("values", "format_"),
    [(["20240325", "20240401"], "%Y%m%d"), (["20240325101500", "20240401000000"], "%Y%m%d%H%M%S")],
)
def test_dates_without_separators_are_not_seconds(tmp_path, values, format_):
    text = "user,item,time\n" + "".join(f"1,{k},{value}\n" for k, value in enumerate(values))
    hint = f'the numbers are dates, for example {values[0]}; set source.behaviors.time: {{column: time, format: "{format_}"}}'
    assert hint in message_of(tmp_path, text)
    for options, first in (({"format": format_}, 19807), ({"unit": "seconds"}, int(values[0]) // 86_400)):
        source = {"behaviors": {"files": "log.csv", "time": {"column": "time"} | options}}
        if "unit" in options and len(values[0]) > 8:
            continue  # after the year 2200
        tables = read_tables(tmp_path, Source.model_validate(source), FeatureColumns(item=("item_id",)))
        assert tables.behaviors["day"].min() == first


def test_numbers_of_which_some_are_no_dates_are_seconds(tmp_path):
    (tmp_path / "log.csv").write_text("user,item,time\n1,1,20240325\n1,2,20240399\n")
    source = Source.model_validate({"behaviors": {"files": "log.csv"}})
    tables = read_tables(tmp_path, source, FeatureColumns(item=("item_id",)))
    assert tables.behaviors["time"].tolist() == [20240325, 20240399]


@pytest.mark.parametrize(
    ("time", "format_"),
    [
        ("Mon Mar 25 2024 10:00:00", "%a %b %d %Y %H:%M:%S"),
        ("25/Mar/2024:10:00:00 +0100", "%d/%b/%Y:%H:%M:%S %z"),
        ("Mon, 25 Mar 2024 10:00:00 +0100", "%a, %d %b %Y %H:%M:%S %z"),
    ],
)
def test_formats_of_logs_are_named(tmp_path, time, format_):
    assert f'format: "{format_}"' in message_of(tmp_path, f'user,item,time\n1,10,"{time}"\n')
    source = {"behaviors": {"files": "log.csv", "time": {"column": "time", "format": format_}}}
    assert (
        len(read_tables(tmp_path, Source.model_validate(source), FeatureColumns(item=("item_id",))).behaviors)
        == 1
    )


def test_a_file_of_one_json_value_is_not_skipped(tmp_path):
    for text in ('[{"user": 1}]', '{\n "user": 1\n}'):
        (tmp_path / "log.json").write_text(text)
        assert "to_json(path, orient='records', lines=True)" in message_of(tmp_path, "", files="log.json")


def test_spreadsheets_and_archives_are_named(tmp_path):
    for name, hint in (
        ("log.xlsx", "save each sheet as CSV"),
        ("log.zip", "unpack it and name the files in it"),
    ):
        (tmp_path / name).write_bytes(b"PK")
        assert message_of(tmp_path, "", files=name).endswith(hint)


def test_a_list_of_parquet_is_not_an_id(tmp_path):
    pd.DataFrame({"user": [1], "item": [[1, 2]], "time": [5]}).to_parquet(tmp_path / "log.parquet")
    message = message_of(tmp_path, "", files="log.parquet")
    assert "column item (source.behaviors.item): found values of type BIGINT[]" in message
    assert message.endswith("set sequence or history instead of item")


def test_ids_of_parquet_may_be_decimals_or_categories(tmp_path):
    ids = {
        "user": pd.Series(["a", "b"], dtype="category"),
        "item": [Decimal("10.5"), Decimal("11.5")],
        "time": [5, 6],
    }
    pd.DataFrame(ids).to_parquet(tmp_path / "log.parquet")
    source = Source.model_validate({"behaviors": {"files": "log.parquet"}})
    tables = read_tables(tmp_path, source, FeatureColumns(item=("item_id",)))
    assert tables.behaviors[["user", "item"]].to_numpy().tolist() == [["a", "10.5"], ["b", "11.5"]]

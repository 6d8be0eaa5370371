"""CSV dialects: delimiters, quotes, numbers and encodings."""

import csv
import gzip
import io
import tempfile
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.tables import read, write

from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.sources.tables.declaration import Source
from deep_interest.sources.tables.reader import read_tables

PRICES = FeatureColumns(item=("item_id", "price"), buckets={"price": 2})


def items_of(
    folder: Path, text: str, features: FeatureColumns = PRICES, *, file="items.csv", **options: object
):
    """Write ``text`` as the items of the default tables and read them."""
    write(folder)
    (folder / file).write_bytes(text.encode() if isinstance(text, str) else text)
    return read(folder, features, items={"files": file, **options}).items


def prices_of(folder: Path, values: list[str], **options: object) -> list[float | None]:
    text = "item;price\n" + "".join(f"{10 + k};{value}\n" for k, value in enumerate(values))
    column = items_of(folder, text, delimiter=";", **options)["price"]
    return [None if pd.isna(value) else value for value in column][: len(values)]


def test_a_decimal_comma_and_a_thousands_point_are_numbers(tmp_path):
    values = ["4,90", "1.234,5", "12.345.678", "-7", "+0,25", ",5", "1e3", " 8,0 "]
    expected = [4.9, 1234.5, 12345678.0, -7.0, 0.25, 0.5, 1000.0, 8.0]
    assert prices_of(tmp_path, values, decimal="comma", thousands="point") == expected


@pytest.mark.parametrize(
    ("thousands", "value"), [("space", "1\u202f234"), ("space", "1\u00a0234"), ("apostrophe", "1'234"), ("comma", "1,234")]
)  # fmt: skip
def test_thousands_may_have_other_separators(tmp_path, thousands, value):
    assert prices_of(tmp_path, [value], thousands=thousands) == [1234.0]


@pytest.mark.parametrize("value", ["1.5", "12.34,5", "1,2,3", "1,234.5", "4,90 €", "nan,", "1.2345", "0x1A"])
def test_a_value_in_another_notation_is_an_error_instead_of_another_number(tmp_path, value):
    with pytest.raises(InputError, match=r"items.csv, column price: found 1 value\(s\) that are not numbers"):
        prices_of(tmp_path, [value], decimal="comma", thousands="point")


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        ("4,90", "If it is a number, set decimal: comma in source.items."),
        ("1.234,50", "set decimal: comma and thousands: point in"),
        ("1 234,50", "set decimal: comma and thousands: space in"),
        ("1,234.50", "set thousands: comma in"),
    ],
)
def test_the_error_names_the_options_of_a_number_in_another_notation(tmp_path, value, advice):
    with pytest.raises(InputError, match=advice):
        prices_of(tmp_path, [value])


@pytest.mark.parametrize(
    ("values", "noted"),
    [
        (["1.011", "4", "2.999", "120", "1.011", "7.250", "5.000"], 5),
        (["1.011", "2.999", "1.011", "5.000"], 0),  # too few
        (["1.011", "2.999", "1.011", "5.000", "7.250", "0.500"], 0),  # three decimals
        (["1.011", "2.999", "1.011", "5.000", "7.250", "3.5"], 0),
    ],
)
def test_points_that_may_separate_thousands_are_noted(tmp_path, values, noted):
    text = "item;price\n" + "".join(f"{10 + k};{value}\n" for k, value in enumerate(values))
    write(tmp_path)
    (tmp_path / "items.csv").write_text(text)
    notes = read(tmp_path, PRICES, items={"files": "items.csv", "delimiter": ";"}).notes
    found = {
        rows
        for note, rows in notes.items()
        if "set decimal: comma and thousands: point in source.items" in note
    }
    assert found == ({noted} if noted else set())
    declared = {"files": "items.csv", "delimiter": ";", "decimal": "comma", "thousands": "point"}
    if noted:
        assert not any("thousands" in note for note in read(tmp_path, PRICES, items=declared).notes)


def test_quotes_are_ordinary_characters_without_quoting(tmp_path):
    text = 'item\ttitle\n10\t"Unbalanced\n11\tSay "hi" now\n12\t"quoted" and more\n13\tplain\n'
    titles = FeatureColumns(item=("item_id", "title"))
    with pytest.raises(
        InputError, match=r"items.tsv, line 2: a quote is not closed.*set quote: none, which keeps every row"
    ):
        items_of(tmp_path, text, titles, file="items.tsv")
    items = items_of(tmp_path, text, titles, file="items.tsv", quote="none")
    assert items["title"].tolist() == ['"Unbalanced', 'Say "hi" now', '"quoted" and more', "plain"]


def test_lines_lost_to_an_unbalanced_quote_are_all_counted(tmp_path):
    write(tmp_path, items='item,category\n10,a\n11,"b\n12,c\n13,d\n')
    tables = read(tmp_path, skip=True)
    assert tables.left_out == {"lines within an unbalanced quote (quote: none keeps them) of items": 3}


JOINED = 'N1\tnews\t"Yes, said one\nN2\tnews\tPlain\nN3\tnews\tA screen of 27"\n'
NAMES = ["item", "category", "title"]


@pytest.mark.parametrize("skip", [False, True])
def test_lines_joined_by_balanced_quotes_are_an_error(tmp_path, skip):
    message = r"items.tsv: 2 line\(s\) are within quotes of an earlier line, although every line has 3 values.*set quote: none"
    write(tmp_path)
    (tmp_path / "items.tsv").write_text(JOINED)
    with pytest.raises(InputError, match=message):
        read(tmp_path, FeatureColumns(), skip=skip, items={"files": "items.tsv", "names": NAMES})
    for quote, ids in (("none", ["N1", "N2", "N3"]), ('"', ["N1"])):
        items = items_of(tmp_path, JOINED, FeatureColumns(), file="items.tsv", names=NAMES, quote=quote)
        assert items["item"].tolist()[: len(ids)] == ids


def test_values_with_line_breaks_are_read(tmp_path):
    text = 'item,category,title\n10,a,"one\n\ntwo"\n11,b,"three, and\nfour"'
    assert items_of(tmp_path, text, FeatureColumns())["item"].tolist() == [10, 11]


def test_another_quote_may_be_declared(tmp_path):
    text = "item,title\n10,'a, b'\n11,say \"hi\"\n12,'it''s'\n"
    items = items_of(tmp_path, text, FeatureColumns(item=("item_id", "title")), quote="'")
    assert items["title"].tolist() == ["a, b", 'say "hi"', "it's"]


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("item;category\n10;1,5\n11;2,5\n", "1,5"),  # decimal commas in every row
        ('item;"a, b, c";category\n10;x;u\n11;y;v\n', "u"),  # commas in a quoted name
        ('"item";"category"\n10;"a,b,c"\n11;"d\n,;e"\n', "a,b,c"),  # a line break in a quoted value
        ("item|category\n10|a;b;c\n11|d;e;f\n", "a;b;c"),  # lists in every row
        ("item;price, net, gross;category\n10;1,5;a\n11;2,5;b\n", "a"),  # more commas than semicolons
        ("item,category\n10,a|b\n11,c|d\n12,e\n", "a|b"),
        ("item\tcategory\n10\ta,b\n11\tc,d\n", "a,b"),
    ],
)
def test_the_delimiter_fits_the_header_and_the_rows(tmp_path, text, category):
    items = items_of(tmp_path, text, FeatureColumns(item=("item_id", "category")))
    assert items["category"].tolist()[:2][0] == category


def test_the_delimiter_of_a_file_without_header_gives_as_many_values_as_names(tmp_path):
    text = "10;1,5,2,5;a\n11;3,5;b\n"  # the first line has more commas
    features = FeatureColumns(item=("item_id", "category"))
    items = items_of(tmp_path, text, features, names=["item", "price", "category"])
    assert items["category"].tolist() == ["a", "b"]


@pytest.mark.parametrize("options", [{}, {"delimiter": "::"}])
def test_a_delimiter_may_have_two_characters(tmp_path, options):
    """The format of MovieLens 10M: ``ratings.dat``."""
    (tmp_path / "ratings.dat").write_text(
        "1::122::5::838985046\n1::185::4.5::838983525\n2::a:b::1::838983526\n"
    )
    declared = {
        "files": "ratings.dat",
        "names": ["user", "item", "stars", "time"],
        "rating": "stars",
        **options,
    }
    tables = read_tables(
        tmp_path, Source.model_validate({"behaviors": declared}), FeatureColumns(item=("item_id",))
    )
    assert tables.behaviors[["user", "item", "rating", "time"]].to_numpy().tolist() == [
        [1, "122", 5.0, 838985046], [1, "185", 4.5, 838983525], [2, "a:b", 1.0, 838983526],
    ]  # fmt: skip
    text = "item::price\n10::1.5\n11::2\n"
    assert items_of(tmp_path, text, **options)["price"].tolist()[:2] == [1.5, 2.0]


def test_files_of_a_table_may_have_different_delimiters(tmp_path):
    write(tmp_path)
    (tmp_path / "a.csv").write_text("item,category\n10,a\n")
    (tmp_path / "b.csv").write_text("item;category\n11;b\n")
    assert read(tmp_path, items={"files": ["a.csv", "b.csv"]}).items["category"].tolist() == ["a", "b"]


def test_a_tsv_file_is_separated_by_tabs(tmp_path):
    text = "item\tcategory,a,b\n10\tx,y,z\n11\tu,v,w\n"
    items = items_of(tmp_path, text, FeatureColumns(item=("item_id", "kind")), file="items.tsv", columns={"kind": "category,a,b"})  # fmt: skip
    assert items["kind"].tolist() == ["x,y,z", "u,v,w"]


@pytest.mark.parametrize(("encoding", "packed"), [("cp1252", False), ("utf-16", False), ("cp1252", True)])
def test_a_declared_encoding_is_converted(tmp_path, encoding, packed):
    content = "Artikel;Preis (€)\n10;Käse\n11;Öl\n".encode(encoding)
    file = "items.csv.gz" if packed else "items.csv"
    options = {"encoding": encoding, "item": "Artikel", "columns": {"kind": "Preis (€)"}}
    features = FeatureColumns(item=("item_id", "kind"))
    items = items_of(tmp_path, gzip.compress(content) if packed else content, features, file=file, **options)
    assert items["kind"].tolist() == ["Käse", "Öl"]


def test_errors_of_a_converted_file_name_the_original(tmp_path):
    write(tmp_path)
    (tmp_path / "items.csv").write_bytes("item,item\n10,Käse\n".encode("cp1252"))
    with pytest.raises(InputError, match=rf"^{tmp_path}/items.csv, line 1: column 'item' occurs twice"):
        read(tmp_path, items={"files": "items.csv", "encoding": "cp1252"})
    (tmp_path / "items.csv").write_bytes(b"item,category\n10,a\n10,b\n")
    with pytest.raises(InputError, match=rf"^{tmp_path}/items.csv: item 10 has several rows"):
        read(tmp_path, items={"files": "items.csv", "encoding": "cp1252"})


def test_bytes_outside_the_declared_encoding_are_an_error(tmp_path):
    with pytest.raises(InputError, match=r"items.csv: the file is not encoded in ascii .* near byte 18\)"):
        items_of(tmp_path, "item,category\n10,Käse\n", encoding="ascii")
    with pytest.raises(InputError, match=r"items.csv: the file is not encoded in utf-16 \(.*BOM"):
        items_of(tmp_path, "item,category\n10,b\n", encoding="utf-16")


def test_partition_folders_of_converted_files_are_columns(tmp_path):
    write(tmp_path)
    for day in ("2024-03-25", "2024-03-26"):
        (tmp_path / f"log/day={day}").mkdir(parents=True)
        text = "user,item,time\nZoë,10,1711324800\n"
        (tmp_path / f"log/day={day}/part.csv").write_bytes(text.encode("latin-1"))
    behaviors = {"files": "log", "encoding": "latin-1", "day": "day"}
    tables = read(tmp_path, behaviors=behaviors)
    assert tables.behaviors["user"].tolist() == ["Zoë", "Zoë"]
    assert tables.behaviors["day"].tolist() == [19807, 19808]


@pytest.mark.parametrize(
    ("file", "options", "option"),
    [
        (
            "items.parquet",
            {"delimiter": ","},
            "delimiter applies to csv files, but this file is read as parquet",
        ),
        ("items.parquet", {"names": ["item"]}, "names applies to csv files"),
        ("items.parquet", {"encoding": "cp1252"}, "encoding applies to csv and json files"),
        ("items.csv", {"table": "items"}, "table applies to duckdb files, but this file is read as csv"),
    ],
)
def test_an_option_without_effect_is_an_error(tmp_path, file, options, option):
    write(tmp_path)
    pd.DataFrame({"item": [10, 11]}).to_parquet(tmp_path / "items.parquet")
    with pytest.raises(InputError, match=f"{file}: the option {option}"):
        read(tmp_path, items={"files": file, **options})


values = st.text("ab1,;\t|'\" .äЖ\n", max_size=6).map(lambda text: f"x{text}x")


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@example(rows=[["x\nx", 'x"x'], ["x,x", "x;x"]], delimiter=None, quote='"', encoding="utf-16")
@given(
    rows=st.lists(st.lists(values, min_size=2, max_size=2), min_size=2, max_size=5),
    delimiter=st.sampled_from([None, ",", ";", "\t", "|"]),
    quote=st.sampled_from(['"', "'"]),
    encoding=st.sampled_from(["utf-8", "utf-16", "cp1251"]),
)
def test_what_is_written_in_a_dialect_is_read_from_it(rows, delimiter, quote, encoding):
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter or ";", quotechar=quote, quoting=csv.QUOTE_ALL).writerows(
        [["user", "item", "time"], *([*row, str(k)] for k, row in enumerate(rows))]
    )
    options = {"quote": quote, "encoding": encoding} | ({"delimiter": delimiter} if delimiter else {})
    with tempfile.TemporaryDirectory() as folder:
        content = text.getvalue().replace("ä", "a").encode(encoding)
        (Path(folder) / "x.csv").write_bytes(content)
        source = Source.model_validate({"behaviors": {"files": "x.csv", **options}})
        behaviors = read_tables(Path(folder), source, FeatureColumns(item=("item_id",))).behaviors
    expected = [[value.replace("ä", "a") for value in row] for row in rows]
    assert behaviors.sort_values("time")[["user", "item"]].to_numpy().tolist() == expected

"""Invalid rows and files: an error that locates them, or rows that are skipped and counted."""

import pytest
from support.tables import IMPRESSIONS, VISITS, declare_impressions, read, write

from deep_interest.errors import InputError


@pytest.mark.parametrize(
    ("files", "changes", "message"),
    [
        ({}, {"behaviors": {"files": "vizits.csv"}}, r"vizits.csv: no such file"),
        ({"visits": ""}, {}, r"visits.csv: the file is empty"),
        ({"visits": "user,itm,time\n1,10,1\n"}, {}, r"visits.csv: column item \(source.behaviors.item\) not found; the columns are user, itm, time; did you mean itm"),
        ({"visits": "user,user,item,time\n1,1,10,1\n"}, {}, r"visits.csv, line 1: column 'user' occurs twice in the header"),
        ({"visits": "user,item,time\n1,10,1\n1,10\n"}, {}, r"visits.csv, line 3: expected 3 values, found 2, in '1,10'.*on_bad_line"),
        ({"visits": "user,item,time\n1,10,yesterday\n1,10,7\n1,10,8\n"}, {}, r"visits.csv, column time \(behaviors.time\): found 1 invalid value\(s\), for example 'yesterday'; expected a time"),
        ({"visits": "user,item,time\n,10,7\nnan,10,7\n"}, {}, r"visits.csv, column user \(behaviors.user\): found 2 row\(s\) without a value"),
        ({"visits": "user,item,time\n1,10,1650902400123\n"}, {}, r"column time: the latest time, 1650902400123 seconds since 1970, is after the year 2200; set unit: milliseconds"),
        ({"impressions": IMPRESSIONS.replace(",0,", ",2,")}, {}, r"impressions.csv, column label \(impressions.label\): found 1 invalid value\(s\), for example '2'; expected 0 or 1.*label.positive"),
        ({"impressions": IMPRESSIONS.replace(",0,", ",,")}, {}, r"impressions.csv, column label .*found 1 row\(s\) without a value"),
        ({"impressions": IMPRESSIONS.replace("place", "palce")}, {}, r"impressions: feature column\(s\) place not found; the columns are user, item, time, label, palce"),
        ({"impressions": IMPRESSIONS.replace("place", "date")}, declare_impressions(day="date"), r"feature column\(s\) place not found"),
        ({"impressions": IMPRESSIONS.replace("place", "place,true_probability").replace("top", "top,high").replace("side", "side,0.5")}, {}, r"column true_probability .*for example 'high'; expected the click probability, a number from 0 to 1; rename the column"),
        ({"items": "item\tcategory\n10\ta\n"}, {"items": {"files": "items.csv", "columns": {"category": "kind"}}}, r"column kind \(source.items.columns.category\) not found"),
        ({}, {"behaviors": {"files": ["visits.csv", "impressions.parquet"]}}, r"impressions.parquet: no such file"),
        ({"visits": "user,item,time\n1,10,2022-04-25 10:00:00 Neverland\n"}, {}, r"column time \(behaviors.time\): found 1 invalid value\(s\), for example '2022-04-25 10:00:00 Neverland'"),
        ({"visits": "PAR1\x00"}, {}, r"visits.csv: expected CSV in UTF-8, found Parquet"),
        ({}, declare_impressions(label={"column": "label", "positive": ["yes"]}), r"impressions.csv, column label: no row has a value of label.positive \(yes\); the column's values are 0, 1"),
        ({"visits": "user,item,time\n1,10,inf\n1,10,7\n1,10,8\n"}, {}, r"column time \(behaviors.time\): found 1 invalid value\(s\), for example 'inf'"),
        ({"visits": "user,item,time\n1,10,99999999999999999999\n1,10,7\n1,10,8\n"}, {}, r"column time \(behaviors.time\): found 1 invalid value\(s\), for example '9{20}'"),
    ],
)  # fmt: skip
def test_invalid_input_raises_an_error_with_file_column_and_value(tmp_path, files, changes, message):
    write(tmp_path, **files)
    with pytest.raises(InputError, match=message):
        read(tmp_path, **changes)


def test_invalid_rows_may_be_skipped_and_are_counted(tmp_path):
    write(
        tmp_path,
        impressions=IMPRESSIONS + "3,10,soon,1,x\n3,10,7,2,x\n3,,7,1,x\n3,10,8,1,x\n",
        visits=VISITS + "1,10\n",
    )
    tables = read(tmp_path, skip=True)
    assert tables.impressions["time"].tolist() == [100, 90000, 8]
    assert tables.left_out == {
        "malformed lines of behaviors": 1, "impressions without a valid user, item, time, label": 3,
    }  # fmt: skip

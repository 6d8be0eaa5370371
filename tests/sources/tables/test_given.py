"""Given samples: rows that carry their history, split, request and weight, in the layouts of BARS, MIND, EB-NeRD and RecBole."""

from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deep_interest.errors import InputError
from deep_interest.logs.canonical import canonical
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.tables import CanonicalTables
from deep_interest.sources.tables.declaration import Source
from deep_interest.sources.tables.reader import read_tables

HEADER = "label,user_id,item_id,cate_id,item_history,cate_history\n"
FILES = {
    "train.csv": "1,7,3,30,1^2,10^20\n0,7,4,30,1^2,10^20\n1,7,4,30,1^2^3,10^20^30\n0,8,1,10,,\n",
    "valid.csv": "1,7,5,20,1^2^3^4,10^20^30^30\n",
    "test.csv": "1,9,5,20,2,20\n0,9,5,20,2,20\n",
}
NAMES = list(FILES)
SPLIT = {"train": "train.csv", "validation": "valid.csv", "test": "test.csv"}
IMPRESSIONS = {
    "files": NAMES, "order": "file", "user": "user_id", "item": "item_id", "split": SPLIT,
    "history": {"item": "item_history", "separator": "^"},
}  # fmt: skip
ITEMS = [
    {"files": NAMES, "item": "item_id", "columns": {"category": "cate_id"}, "repeated": "first"},
    {
        "files": NAMES, "sequence": "item_history", "separator": "^", "columns": {"category": "cate_history"},
        "repeated": "first",
    },
]  # fmt: skip


def read_given(
    folder: Path,
    features: FeatureColumns | None = None,
    *,
    texts: dict[str, str] | None = None,
    skip: bool = False,
    **options: object,
) -> CanonicalTables:
    """Write the files and read them with ``options`` of the impressions."""
    for name, text in (FILES | (texts or {})).items():
        (folder / name).write_text(HEADER + text)
    source = Source.model_validate({"impressions": IMPRESSIONS | options, "items": ITEMS})
    features = features or FeatureColumns(item=("item_id", "category"))
    return canonical(read_tables(folder, source, features, on_bad_line="skip" if skip else "error"))


def histories(tables: CanonicalTables, columns: tuple[str, ...] = ("item",)) -> list[list]:
    """Return the history of each impression: a slice of its segment."""
    segments = dict(list(tables.behaviors.groupby("segment")))
    rows = []
    for segment, end in zip(tables.shown["segment"], tables.shown["history_end"], strict=True):
        values = segments[segment][list(columns)].head(end).to_numpy().tolist() if segment else []
        rows.append([value[0] for value in values] if len(columns) == 1 else values)
    return rows


def test_each_row_has_exactly_its_given_history(tmp_path):
    tables = read_given(tmp_path)
    rows = tables.shown.assign(history=histories(tables)).sort_values(["user", "time"])
    assert rows[["user", "item", "label", "split", "history"]].to_numpy().tolist() == [
        [7, 3, 1, "train", [1, 2]],
        [7, 4, 0, "train", [1, 2]],
        [7, 4, 1, "train", [1, 2, 3]],
        [7, 5, 1, "validation", [1, 2, 3, 4]],
        [8, 1, 0, "train", []],
        [9, 5, 1, "test", [2]],
        [9, 5, 0, "test", [2]],
    ]


def test_a_history_that_begins_another_one_is_stored_once(tmp_path):
    tables = read_given(tmp_path)
    assert tables.behaviors[["user", "item", "time", "segment"]].to_numpy().tolist() == [
        [7, 1, 0, 1],
        [7, 2, 1, 1],
        [7, 3, 2, 1],
        [7, 4, 3, 1],
        [9, 2, 0, 2],
    ]


def test_items_of_histories_have_the_features_of_their_lists(tmp_path):
    items = read_given(tmp_path).items.set_index("item")["category"]
    assert items.to_dict() == {1: "10", 2: "20", 3: "30", 4: "30", 5: "20"}


def test_items_whose_features_differ_between_rows_are_noted(tmp_path):
    note = "items with different features in several rows (the first one counts)"
    assert read_given(tmp_path).notes == {}
    tables = read_given(tmp_path, texts={"test.csv": "1,9,5,20,2,30\n"})
    assert tables.notes == {note: 1}


def test_repeated_rows_of_a_given_split_are_kept(tmp_path):
    tables = read_given(
        tmp_path, texts={"test.csv": "1,9,5,20,2,20\n1,9,5,20,2,20\n"}, order=None, time="item_id"
    )
    assert len(tables.shown[tables.shown["split"] == "test"]) == 2


LISTS = st.lists(st.integers(1, 4), max_size=5)


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.tuples(st.integers(1, 3), LISTS), min_size=2, max_size=12).filter(
        lambda rows: any(r[1] for r in rows)
    )
)
def test_any_histories_are_slices_of_the_log(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("slices")
    lines = [
        f"{index % 2},{user},1,{'^'.join(map(str, items))}\n" for index, (user, items) in enumerate(rows)
    ]
    (folder / "a.csv").write_text("label,user,item,past\n" + "".join(lines[:-1]))
    (folder / "b.csv").write_text("label,user,item,past\n" + lines[-1])
    block = {
        "files": ["a.csv", "b.csv"], "order": "file", "history": {"item": "past", "separator": "^"},
        "split": {"train": "a.csv", "test": "b.csv"},
    }  # fmt: skip
    source = Source.model_validate({"impressions": block})
    tables = read_tables(folder, source, FeatureColumns(item=("item_id",)))
    read = tables.shown.assign(history=histories(tables)).sort_values("time")
    assert read["history"].tolist() == [items for _, items in rows]
    stored = {tuple(segment["item"]) for _, segment in tables.behaviors.groupby("segment")}
    assert len(tables.behaviors) <= sum(len(items) for _, items in set((u, tuple(i)) for u, i in rows))
    assert stored <= {tuple(items) for _, items in rows}


def test_the_segment_of_a_history_belongs_to_one_user(tmp_path):
    tables = read_given(tmp_path, texts={"test.csv": "1,9,5,20,1^2,10^20\n"})
    owners = tables.behaviors.groupby("segment")["user"].nunique()
    assert owners.tolist() == [1, 1]
    assert tables.shown.loc[tables.shown["user"] == 9, "segment"].tolist() == [2]


def test_histories_have_features_of_their_own(tmp_path):
    features = FeatureColumns(item=("item_id",), behavior=("item_id", "action"))
    tables = read_given(
        tmp_path,
        features,
        history={"item": "item_history", "separator": "^", "columns": {"action": "cate_history"}},
    )
    longest = tables.behaviors[tables.behaviors["segment"] == 1]
    assert longest[["item", "action"]].to_numpy().tolist() == [[1, "10"], [2, "20"], [3, "30"], [4, "30"]]


def test_composite_ids_have_a_list_for_each_part(tmp_path):
    tables = read_given(
        tmp_path, FeatureColumns(item=("item_id",)), item=["item_id", "cate_id"],
        history={"item": ["item_history", "cate_history"], "separator": "^"},
    )  # fmt: skip
    assert tables.behaviors["item"].tolist() == ["1|10", "2|20", "3|30", "4|30", "2|20"]


@pytest.mark.slow
def test_lists_of_different_lengths_are_an_error_or_skipped(tmp_path):
    texts = {"train.csv": FILES["train.csv"] + "1,8,3,30,1^2^4,10^20\n"}
    with pytest.raises(
        InputError, match=r"train\.csv: 1 row.* item_history has 3 \('1\^2\^4'\) and cate_history has 2"
    ):
        read_given(tmp_path, texts=texts)
    features = FeatureColumns(item=("item_id",), behavior=("item_id", "action"))
    history = {"item": "item_history", "separator": "^", "columns": {"action": "cate_history"}}
    with pytest.raises(InputError, match="lists of different lengths"):
        read_given(tmp_path, features, texts=texts, history=history)
    tables = read_given(tmp_path, features, texts=texts, history=history, skip=True)
    assert len(tables.shown) == 7
    assert tables.left_out["impressions with lists of different lengths"] == 1


def test_a_split_can_be_a_column(tmp_path):
    rows = "user,item,label,fold\n1,5,1,a\n1,6,0,b\n2,5,0,c\n2,6,1,a\n"
    (tmp_path / "x.csv").write_text(rows)
    block = {"files": "x.csv", "split": {"column": "fold", "train": ["a", "b"], "test": "c"}, "time": "user"}
    tables = read_tables(
        tmp_path, Source.model_validate({"impressions": block}), FeatureColumns(item=("item_id",))
    )
    assert tables.shown["split"].tolist() == ["train", "train", "test", "train"]


def one_split_column(folder: Path, split: object, values: str = "train valid test") -> pd.DataFrame:
    rows = [f"{index},{index},1,{value}\n" for index, value in enumerate(values.split(), start=1)]
    (folder / "x.csv").write_text("user,item,label,fold\n" + "".join(rows))
    source = Source.model_validate({"impressions": {"files": "x.csv", "split": split, "time": "user"}})
    return read_tables(folder, source, FeatureColumns(item=("item_id",))).shown


def test_the_usual_names_of_splits_are_known(tmp_path):
    assert one_split_column(tmp_path, "fold")["split"].tolist() == ["train", "validation", "test"]


@pytest.mark.parametrize(
    ("split", "values", "message"),
    [
        ("fold", "train later test", r"found the split 'later', but source\.impressions\.split names train, validation"),
        ("fold", "train train", r"no row has the split 'test' \(source\.impressions\.split\.test\); the column's values are train"),
        ({"column": "fold", "validation": "va"}, "train test", r"no row has the split 'va'"),
        ({"train": "y.csv", "test": "x.csv"}, "train test", r"split\.train: no file is named 'y\.csv'; the files are .*x\.csv"),
    ],
)  # fmt: skip
def test_a_split_name_that_does_not_exist_is_an_error(tmp_path, split, values, message):
    with pytest.raises(InputError, match=message):
        one_split_column(tmp_path, split, values)


def test_a_file_without_a_split_is_an_error(tmp_path):
    with pytest.raises(
        InputError, match=r"valid\.csv: the file has no split, because source\.impressions\.split names"
    ):
        read_given(tmp_path, split={"train": "train.csv", "test": "test.csv"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"history": "past"}, r"column past \(source\.impressions\.history\) not found"),
        ({"weight": "w"}, r"column w \(source\.impressions\.weight\) not found"),
        ({"request": "list"}, r"column list \(source\.impressions\.request\) not found"),
        ({"split": "fold"}, r"column fold \(source\.impressions\.split\) not found"),
        ({"history": {"item": "item_history", "columns": {"a": "b"}}}, r"column b \(source\.impressions\.history\.columns\.a\)"),
        ({"history": "item_history"}, r"no list contains the separator ' ', but most contain '\^'.*impressions\.history\.separator"),
    ],
)  # fmt: skip
def test_a_missing_column_or_wrong_separator_is_named(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        read_given(tmp_path, **options)


def test_a_label_other_than_0_or_1_is_an_error(tmp_path):
    with pytest.raises(
        InputError, match=r"train\.csv, column label .*found 1 invalid value\(s\), for example '2'"
    ):
        read_given(tmp_path, texts={"train.csv": "2,7,3,30,1^2,10^20\n"})


@pytest.mark.parametrize("weight", ["-1", "much", "inf"])
def test_a_weight_below_0_or_not_a_number_is_an_error(tmp_path, weight):
    (tmp_path / "w.csv").write_text(f"user,item,time,label,w\n1,2,3,1,0.5\n1,2,4,0,{weight}\n")
    source = Source.model_validate({"impressions": {"files": "w.csv", "weight": "w"}})
    with pytest.raises(
        InputError, match=f"column w .*for example '{weight}'; expected a number of at least 0"
    ):
        read_tables(tmp_path, source, FeatureColumns(item=("item_id",)))


def test_histories_that_are_all_empty_are_an_error(tmp_path):
    texts = {name: "1,7,3,30,,\n" for name in NAMES}
    with pytest.raises(InputError, match=r"impressions\.history: no row has a history"):
        read_given(tmp_path, texts=texts)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"behaviors": {"files": "visits.csv"}}, "impressions.history gives the history of each row, so behaviors has no effect"),
        ({"clicks_as_behaviors": True}, "so clicks_as_behaviors has no effect"),
        ({"impressions": [IMPRESSIONS, IMPRESSIONS | {"split": None}]}, "either all blocks declare split or none does"),
        ({"impressions": {"files": "x.csv", "order": "file"}}, "the behaviours before a row are unknown; set history"),
        ({"impressions": IMPRESSIONS | {"split": {"train": "x.csv"}}}, "set column .* or train and test to the names of their files"),
        ({"impressions": IMPRESSIONS | {"split": {"train": "a", "test": "a"}}}, "a is named for two splits"),
        ({"items": ITEMS[1] | {"repeated": "error"}}, "a list of items names an item more than once; set repeated: first"),
    ],
)  # fmt: skip
def test_declarations_that_contradict_each_other_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        Source.model_validate({"impressions": IMPRESSIONS} | change)


def test_a_request_is_a_list_or_has_an_id(tmp_path):
    (tmp_path / "log.csv").write_text("user,time,shown,id\n1,10,5-1 6-0,x\n1,20,5-0,x\n2,30,6-1 7-0,x\n")
    block = {"files": "log.csv", "sequence": "shown", "label": {"separator": "-"}}
    features = FeatureColumns(item=("item_id",))
    by_list, by_id = (
        read_tables(tmp_path, Source.model_validate({"impressions": block | more}), features).shown
        for more in ({}, {"request": "id"})
    )
    assert by_list["request"].tolist() == ["0", "0", "1", "2", "2"]
    assert set(by_id["request"]) == {"x"}


def test_clicked_items_can_be_a_list(tmp_path):
    """EB-NeRD: Parquet lists of the items in view and of the clicked ones, and of the times of a history."""
    stamps = pd.to_datetime(["2023-05-18 10:00:01", "2023-05-18 10:00:02", "2023-05-19 09:00:00"])
    pd.DataFrame(
        {
            "impression_id": [11, 12], "user_id": [1, 2], "impression_time": stamps[:2] + pd.Timedelta("7D"),
            "article_ids_inview": [[100, 200, 300], [200]], "article_ids_clicked": [[200], [200]],
        }
    ).to_parquet(tmp_path / "behaviors.parquet")  # fmt: skip
    pd.DataFrame(
        {
            "user_id": [1, 2], "article_id_fixed": [[300, 100], [200]],
            "impression_time_fixed": [list(stamps[:2]), list(stamps[2:])], "read_time_fixed": [[7.0, 9.0], [1.0]],
        }
    ).to_parquet(tmp_path / "history.parquet")  # fmt: skip
    source = Source.model_validate(
        {
            "behaviors": {
                "files": "history.parquet", "user": "user_id", "sequence": "article_id_fixed", "time": "impression_time_fixed",
                "columns": {"read": "read_time_fixed"},
            },
            "impressions": {
                "files": "behaviors.parquet", "user": "user_id", "time": "impression_time", "sequence": "article_ids_inview",
                "label": {"clicked": "article_ids_clicked"}, "request": "impression_id",
            },
        }
    )  # fmt: skip
    features = FeatureColumns(item=("item_id",), behavior=("item_id", "read"), buckets={"read": 2})
    tables = canonical(read_tables(tmp_path, source, features))
    shown = tables.shown.sort_values(["user", "item"])
    assert shown[["user", "item", "label", "request"]].to_numpy().tolist() == [
        [1, 100, 0, "11"],
        [1, 200, 1, "11"],
        [1, 300, 0, "11"],
        [2, 200, 1, "12"],
    ]
    first = stamps[0].value // 1_000_000
    assert tables.behaviors[["user", "item", "time", "read"]].to_numpy().tolist() == [
        [1, 300, first, 7.0],
        [1, 100, first + 1000, 9.0],
        [2, 200, stamps[2].value // 1_000_000, 1.0],
    ]


def test_a_threshold_makes_labels_of_ratings(tmp_path):
    (tmp_path / "r.csv").write_text("user,item,time,rating\n1,2,3,4.0\n1,3,4,3.5\n1,4,5,5\n")
    block = {"files": "r.csv", "label": {"column": "rating", "at_least": 4}}
    features = FeatureColumns(item=("item_id",))
    tables = read_tables(tmp_path, Source.model_validate({"impressions": block}), features)
    assert tables.shown["label"].tolist() == [1, 0, 1]
    (tmp_path / "r.csv").write_text("user,item,time,rating\n1,2,3,4.0\n1,3,4,bad\n")
    with pytest.raises(
        InputError, match=r"for example 'bad'; expected a number, to compare with label\.at_least"
    ):
        read_tables(tmp_path, Source.model_validate({"impressions": block}), features)


def test_the_types_in_the_headers_of_atomic_files_are_left_out(tmp_path):
    (tmp_path / "ml.inter").write_text(
        "user_id:token\titem_id:token\trating:float\ttimestamp:float\n1\t242\t3\t881250949\n2\t302\t5\t891717742\n"
    )
    (tmp_path / "ml.item").write_text(
        "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\n242\tKolya\t1996\tComedy\n302\tL.A. Confidential\t1997\tCrime Film-Noir\n"
    )
    (tmp_path / "ml.user").write_text("user_id:token\tage:token\n1\t24\n2\t53\n")
    source = Source.model_validate(
        {
            "impressions": {
                "files": "ml.inter", "user": "user_id", "item": "item_id", "time": "timestamp",
                "label": {"column": "rating", "at_least": 4},
            },
            "items": {"files": "ml.item", "item": "item_id", "columns": {"genre": "class"}},
            "users": {"files": "ml.user", "user": "user_id"},
        }
    )  # fmt: skip
    features = FeatureColumns(item=("item_id", "genre"), profile=("age",), multi_hot={"genre": " "})
    tables = read_tables(tmp_path, source, features)
    assert tables.shown[["user", "item", "label", "time"]].to_numpy().tolist() == [
        [1, 242, 0, 881250949],
        [2, 302, 1, 891717742],
    ]
    assert tables.items["genre"].tolist() == ["Comedy", "Crime Film-Noir"]
    assert tables.users["age"].tolist() == ["24", "53"]


def test_parquet_files_give_the_same_samples(tmp_path):
    """FuxiCTR writes Parquet, with lists."""
    expected = read_given(tmp_path)
    kinds = {"item_history": "item", "cate_history": "category"}
    for name in FILES:
        frame = pd.read_csv(tmp_path / name, keep_default_na=False, dtype=dict.fromkeys(kinds, str))
        for column in kinds:
            frame[column] = [
                [int(value) for value in past.split("^")] if past else [] for past in frame[column]
            ]
        frame.to_parquet(tmp_path / name.replace(".csv", ".parquet"))
    files = [name.replace(".csv", ".parquet") for name in NAMES]
    split = {key: name.replace(".csv", ".parquet") for key, name in SPLIT.items()}
    lists = [
        {key: value for key, value in block.items() if key != "separator"} | {"files": files}
        for block in ITEMS
    ]
    impressions = IMPRESSIONS | {"files": files, "split": split, "history": "item_history"}
    source = Source.model_validate({"impressions": impressions, "items": lists})
    tables = canonical(read_tables(tmp_path, source, FeatureColumns(item=("item_id", "category"))))
    for name in ("shown", "behaviors", "items"):
        pd.testing.assert_frame_equal(getattr(tables, name), getattr(expected, name), check_dtype=False)
    assert histories(tables) == histories(expected)

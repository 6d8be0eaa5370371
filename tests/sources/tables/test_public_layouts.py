"""The layouts of docs/own-data.md: files as their programs write them, read by the page's blocks alone."""

import re
from datetime import datetime
from pathlib import Path

import pandas as pd
import pytest
import yaml

from deep_interest.errors import InputError
from deep_interest.logs.canonical import canonical
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.tables import CanonicalTables
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.sources.tables.declaration import Source
from deep_interest.sources.tables.reader import read_tables

PAGE = (Path(__file__).parents[3] / "docs/own-data.md").read_text(encoding="utf-8")
NINE = 1573463158  # 2019-11-11 09:05:58 UTC


def documented(dataset: str) -> dict:
    """Return the block of the page."""
    blocks = [
        yaml.safe_load(text)["datasets"]
        for text in re.findall(r"```yaml\n(datasets:.*?)```", PAGE, flags=re.DOTALL)
    ]
    (block,) = [block[dataset] for block in blocks if dataset in block]
    return block


def read_as_documented(folder: Path, dataset: str) -> CanonicalTables:
    """Read the files in ``folder`` with the block of the page."""
    settings = DatasetParameters.model_validate(documented(dataset))
    return canonical(read_tables(folder, settings.source, settings.features))


@pytest.fixture
def mind(tmp_path):
    """Two days of a news log; the first title has one quotation mark, the second two, the third begins with one."""
    news = [
        'N1\tnews\tpolitics\tMayor: 5" of snow\tText, text; "text\thttps://x/1\t[]\t[{"Label": "Snow"}]',
        'N2\tsports\tnba\tThe "game"\t\thttps://x/2\t[]\t[]',
        'N3\tnews\tworld\t"Yes, said the minister\tText\thttps://x/3\t[]\t[]',
        "N4\tnews\tworld\tPlain\tText\thttps://x/4\t[]\t[]",
    ]
    log = [
        "1\tU1\t11/11/2019 9:05:58 AM\tN1 N2\tN3-1 N4-0",
        "2\tU2\t11/11/2019 11:05:58 PM\t\tN1-0 N3-0 N2-1",
        "3\tU1\t11/12/2019 12:05:58 PM\tN1 N2\tN4-1",
    ]
    (tmp_path / "news.tsv").write_text("\n".join(news) + "\n", encoding="utf-8")
    (tmp_path / "behaviors.tsv").write_text("\n".join(log) + "\n", encoding="utf-8")
    return tmp_path


def histories(tables: CanonicalTables) -> list[list[object]]:
    """Return the given history of each impression, in the order of the impressions."""
    segments = dict(list(tables.behaviors.groupby("segment")["item"]))
    return [
        segments[segment].head(end).tolist() if segment else []
        for segment, end in zip(tables.shown["segment"], tables.shown["history_end"], strict=True)
    ]


def test_mind_is_read_completely(mind):
    tables = read_as_documented(mind, "mind")
    assert tables.items.to_numpy().tolist() == [
        ["N1", "news", "politics"],
        ["N2", "sports", "nba"],
        ["N3", "news", "world"],
        ["N4", "news", "world"],
    ]
    night, noon = NINE + 14 * 3600, NINE + 27 * 3600
    shown = tables.shown.assign(history=histories(tables)).sort_values(["time", "item"])
    assert shown[["user", "item", "time", "label", "hour", "request", "history"]].to_numpy().tolist() == [
        ["U1", "N3", NINE * 1000, 1, 9, "0", ["N1", "N2"]],
        ["U1", "N4", NINE * 1000, 0, 9, "0", ["N1", "N2"]],
        ["U2", "N1", night * 1000, 0, 23, "1", []],
        ["U2", "N2", night * 1000, 1, 23, "1", []],
        ["U2", "N3", night * 1000, 0, 23, "1", []],
        ["U1", "N4", noon * 1000, 1, 12, "2", ["N1", "N2"]],
    ]
    assert len(tables.behaviors) == 2
    assert tables.left_out == tables.notes == {}


def test_the_files_of_mind_can_be_in_folders_of_splits(mind):
    for folder, day in (("MINDsmall_train", "11/12"), ("MINDsmall_dev", "11/15")):
        (mind / folder).mkdir()
        (mind / folder / "news.tsv").write_bytes((mind / "news.tsv").read_bytes())
        log = (mind / "behaviors.tsv").read_text().replace("11/12", day)
        (mind / folder / "behaviors.tsv").write_text(log)
    for name in ("news.tsv", "behaviors.tsv"):
        (mind / name).unlink()
    tables = read_as_documented(mind, "mind")
    assert len(tables.items) == 4
    assert tables.shown["request"].nunique() == 6
    assert len(tables.behaviors) == 2  # both files give the same history


def test_the_first_history_and_the_clicks_can_be_the_behaviors(mind):
    """Histories by time, from the first one of each user and the clicks that follow."""
    block = {
        "files": "behaviors.tsv", "names": ["impression", "user", "time", "history", "shown"], "quote": "none",
        "time": {"column": "time", "format": "%m/%d/%Y %I:%M:%S %p"},
    }  # fmt: skip
    source = {
        "behaviors": block | {"history": "history"}, "clicks_as_behaviors": True,
        "impressions": block | {"sequence": "shown", "label": {"separator": "-"}},
    }  # fmt: skip
    tables = canonical(read_tables(mind, Source.model_validate(source), FeatureColumns(item=("item_id",))))
    night, noon = NINE + 14 * 3600, NINE + 27 * 3600
    assert tables.behaviors[["user", "item", "time"]].to_numpy().tolist() == [
        ["U1", "N1", NINE * 1000 - 2],
        ["U1", "N2", NINE * 1000 - 1],
        ["U1", "N3", NINE * 1000],
        ["U1", "N4", noon * 1000],
        ["U2", "N2", night * 1000],
    ]
    assert tables.left_out == {
        "rows of behaviors with a later history of the same user (the first one counts)": 1
    }
    assert tables.notes == {"clicks that count as behaviors (source.clicks_as_behaviors)": 3}


def test_an_ordered_log_keeps_its_order(tmp_path):
    (tmp_path / "ml-1m.txt").write_text("2 31\n1 58\n1 31\n2 7\n1 58\n")
    tables = read_as_documented(tmp_path, "ordered")
    assert tables.behaviors.to_numpy().tolist() == [[1, 58, 1], [1, 31, 2], [1, 58, 4], [2, 31, 0], [2, 7, 3]]
    assert tables.items["item"].tolist() == [7, 31, 58]
    assert tables.left_out == tables.notes == {}


def test_an_export_of_a_shop_with_branches_is_read(tmp_path):
    orders = "Branch;Customer no.;Article;Date;Paid\n7;1001;A-12;24.03.2024 09:16;1.011,50\n8;1001;A-07;31.03.2024 03:00;4,90\n"
    articles = "Article;Group;Price (€)\nA-12;Coffee;1.011,50\nA-07;Crème fraîche;4,90\n"
    (tmp_path / "orders_2024.csv").write_bytes(orders.encode("cp1252"))
    (tmp_path / "articles.csv").write_bytes(articles.encode("cp1252"))
    tables = read_as_documented(tmp_path, "branches")
    assert tables.behaviors[["user", "item", "time"]].to_numpy().tolist() == [
        ["7|1001", "A-12", 1711268160000],  # 08:16 UTC, an hour behind Berlin
        ["8|1001", "A-07", 1711846800000],  # 01:00 UTC, two hours behind: summer time began that night
    ]
    assert tables.items.to_numpy().tolist() == [["A-12", "Coffee", 1011.5], ["A-07", "Crème fraîche", 4.9]]
    assert tables.left_out == tables.notes == {}


SHOP = yaml.safe_load(re.findall(r"```yaml\n(datasets:.*?)```", PAGE, flags=re.DOTALL)[0])["datasets"][
    "my_shop"
]
OF_REQUESTS = {"list_negatives"}
BY_USER = {"min_behaviors", "negatives", "negative_pool", "ties", "test_users", "mode", "positive_rating"}


def examples(page: str) -> list[dict]:
    """Options that the page writes as YAML in its text and tables, such as ``protocol: {train_days: 14}``."""
    text = re.sub(r"```.*?```", "", page, flags=re.DOTALL).replace("\\|", "|")
    return [
        yaml.safe_load(code)
        for code in re.findall(r"`((?:protocol|reading|features): {.*?})`(?= |\n|,|\.)", text)
    ]


@pytest.mark.parametrize("example", examples(PAGE), ids=str)
def test_every_option_that_the_page_shows_is_accepted(example):
    ((key, options),) = example.items()
    block = SHOP | {"features": {"item": ["item_id", "category", "tags", "price", "age"]}}
    if OF_REQUESTS & set(options):
        impressions = SHOP["source"]["impressions"] | {"request": "shown_at"}
        block |= {"source": SHOP["source"] | {"impressions": impressions}}
    if BY_USER & set(options):  # those of the protocols without impressions
        name = {"positive_rating": "rated", "test_users": "last_item"}.get(next(iter(options)), "next_item")
        block |= {"source": {"behaviors": SHOP["source"]["behaviors"]}, "protocol": {"name": name}}
    block[key] = block.get(key, {}) | options
    read = DatasetParameters.model_validate(block).model_dump(mode="json")[key]
    plain = {name: value for name, value in options.items() if not isinstance(value, list | dict)}
    assert all(read[name] in (value, str(value)) for name, value in plain.items())


def test_the_page_shows_options_of_every_kind():
    assert len(examples(PAGE)) > 15
    assert {key for example in examples(PAGE) for key in example} == {"protocol", "reading", "features"}


def test_the_example_of_several_values_is_accepted():
    texts = re.findall(r"```yaml\n(features:.*?)```", PAGE, flags=re.DOTALL)
    (text,) = [text for text in texts if "multi_hot" in text]
    features = FeatureColumns.model_validate(yaml.safe_load(text)["features"])
    assert features.multi_hot["interests"].pooling == "mean"


def test_a_line_per_user_is_read_as_the_page_says(tmp_path):
    (tmp_path / "gowalla.tsv").write_text(
        "".join(line.replace(" ", "\t", 1) for line in ("1 58 31 58\n", "2 7\n"))
    )
    assert "sed 's/ /\\t/' gowalla.txt > gowalla.tsv" in PAGE
    assert "`[user, items]`, and set `sequence: items`" in PAGE
    declared = {"files": "gowalla.tsv", "names": ["user", "items"], "sequence": "items", "order": "file"}
    tables = read_tables(
        tmp_path, Source.model_validate({"behaviors": declared}), FeatureColumns(item=("item_id",))
    )
    assert tables.behaviors[["user", "item"]].to_numpy().tolist() == [[1, 58], [1, 31], [1, 58], [2, 7]]


def write_ebnerd(folder: Path, *, read_times: list[float]) -> None:
    """The history of one user with its times, and two lists with what was clicked."""
    (folder / "train").mkdir()
    times = [datetime(2023, 5, 18, 7, minute) for minute in (1, 2, 3)]
    history = {
        "user_id": [5],
        "article_id_fixed": [[31, 32, 33]],
        "impression_time_fixed": [times],
        "read_time_fixed": [read_times],
    }
    pd.DataFrame(history).to_parquet(folder / "train/history.parquet")
    pd.DataFrame(
        {
            "impression_id": [900, 901], "user_id": [5, 5], "impression_time": [datetime(2023, 5, 18, 7, 2), datetime(2023, 5, 18, 9)],
            "article_ids_inview": [[31, 34], [32, 33, 35]], "article_ids_clicked": [[34], [33, 35]],
        }
    ).to_parquet(folder / "train/behaviors.parquet")  # fmt: skip
    pd.DataFrame({"article_id": range(31, 36), "category": [1, 1, 2, 2, 2]}).to_parquet(
        folder / "articles.parquet"
    )


def test_ebnerd_is_read_with_the_times_of_its_histories(tmp_path):
    write_ebnerd(tmp_path, read_times=[3.0, 40.0, 7.0])
    tables = read_as_documented(tmp_path, "ebnerd")
    assert tables.behaviors[["user", "item", "read_time"]].to_numpy().tolist() == [
        [5, 31, 3],
        [5, 32, 40],
        [5, 33, 7],
    ]
    shown = tables.shown.sort_values(["request", "item"])
    assert shown[["user", "item", "label", "request"]].to_numpy().tolist() == [
        [5, 31, 0, "900"], [5, 34, 1, "900"], [5, 32, 0, "901"], [5, 33, 1, "901"], [5, 35, 1, "901"],
    ]  # fmt: skip
    first = shown["time"].min()
    assert (tables.behaviors["time"] < first).tolist() == [
        True,
        False,
        False,
    ]  # 07:01 is before 07:02, 07:02 is not


def test_lists_of_ebnerd_with_different_lengths_are_named(tmp_path):
    write_ebnerd(tmp_path, read_times=[3.0, 40.0])
    with pytest.raises(InputError, match=r"history\.parquet.*read_time_fixed"):
        read_as_documented(tmp_path, "ebnerd")


def test_atomic_files_of_splits_are_given_samples(tmp_path):
    """The page's block of RecBole with the split and protocol that its text adds."""
    header = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
    rows = {"train": "1\t3\t5\t100\n1\t4\t2\t200\n", "valid": "1\t5\t4\t300\n", "test": "1\t6\t1\t400\n"}
    for split, text in rows.items():
        (tmp_path / f"ml-100k.{split}.inter").write_text(header + text)
    (tmp_path / "ml-100k.item").write_text(
        "item_id:token\tclass:token_seq\n" + "".join(f"{k}\tg h\n" for k in range(3, 7))
    )
    (tmp_path / "ml-100k.user").write_text(
        "user_id:token\tage:token\tgender:token\toccupation:token\n1\t20\tM\tother\n"
    )
    (text,) = re.findall(r"add `split: (\{train:.*?\})`", PAGE, flags=re.DOTALL)
    block = documented("ml_100k")
    block["source"]["impressions"] |= {"files": "*.inter", "split": yaml.safe_load(text)}
    settings = DatasetParameters.model_validate(block | {"protocol": {"name": "given"}})
    tables = canonical(read_tables(tmp_path, settings.source, settings.features))
    assert tables.shown.sort_values("time")[["item", "label", "split"]].to_numpy().tolist() == [
        [3, 1, "train"], [4, 0, "train"], [5, 1, "validation"], [6, 0, "test"],
    ]  # fmt: skip

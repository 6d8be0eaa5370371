"""`deep-interest plan`, from arguments to what it prints."""

import json

import numpy as np
import pandas as pd
import pytest
import yaml
from support.project import copy_project

from deep_interest.commands.main import main
from deep_interest.commands.plan import bytes_of
from deep_interest.errors import InputError

COUNTS = ["--users=1000", "--items=500", "--behaviors=20000", "--memory=16GB", "--cores=4"]
USERS, ITEMS = 30, 12


def shop() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return visits of 30 users to 12 items, and the items with 3 kinds."""
    rng = np.random.default_rng(0)
    user = np.repeat(np.arange(USERS), 10)
    item = np.concatenate([rng.permutation(ITEMS)[:10] for _ in range(USERS)])
    visits = pd.DataFrame(
        {"who": user, "what": [f"i{number}" for number in item], "at": np.arange(len(user))}
    )
    return visits, pd.DataFrame(
        {"what": [f"i{n}" for n in range(ITEMS)], "kind": [f"k{n % 3}" for n in range(ITEMS)]}
    )


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Copy of the project with a dataset ``shop`` of its own."""
    folder = copy_project(tmp_path / "project")
    visits, items = shop()
    raw = tmp_path / "raw"
    (raw / "shop").mkdir(parents=True)
    visits.to_csv(raw / "shop/visits.csv", index=False)
    items.to_csv(raw / "shop/items.csv", index=False)
    source = {
        "behaviors": {"files": "visits.csv", "user": "who", "item": "what", "time": "at"},
        "items": {"files": "items.csv", "item": "what", "columns": {"category": "kind"}},
    }
    block = {"title": "Shop", "protocol": {"name": "next_item"}, "source": source}
    (folder / "conf/base/parameters/shop.yml").write_text(yaml.safe_dump({"datasets": {"shop": block}}))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("DEEP_INTEREST_RAW", str(raw))
    return folder


def printed(capsys, *arguments):
    assert main(["plan", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.slow
def test_a_plan_of_given_counts_needs_no_files(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("DEEP_INTEREST_RAW", str(tmp_path))
    plan = json.loads(printed(capsys, "amazon_books", *COUNTS, "--values=category=9", "--json"))
    assert plan["counts"] == {
        "users": 1000, "items": 500, "behaviors": 20_000, "samples": 38_000, "values": {"category": 9},
    }  # fmt: skip
    assert plan["machine"] == {"memory": 16_000_000_000, "cores": 4}
    names = [(stage["name"], stage["engine"]) for stage in plan["stages"]]
    assert names[:2] == [("ingest", "in memory"), ("ingest", "on disk")]
    assert ("samples", "NumPy") in names
    assert names[-1] == ("train din", "4 process(es)")
    assert all(stage["fits"] for stage in plan["stages"])


@pytest.mark.slow
def test_raw_files_are_counted_and_a_run_confirms_the_counts(capsys, project):
    plan = json.loads(printed(capsys, "shop", "--json"))
    counts = plan["counts"]
    assert counts["raw_bytes"] > 0
    assert {name: counts[name] for name in ("users", "items", "behaviors", "values")} == {
        "users": USERS, "items": ITEMS, "behaviors": 10 * USERS, "values": {"category": 3},
    }  # fmt: skip
    assert counts["samples"] == 2 * (10 * USERS - USERS)


@pytest.mark.slow
def test_canonical_tables_are_counted_if_they_exist(capsys, project):
    folder = project / "data/02_intermediate/shop"
    folder.mkdir(parents=True)
    visits, items = shop()
    visits = visits.rename(columns={"who": "user", "what": "item", "at": "time"}).query("user < 20")
    visits.to_parquet(folder / "behaviors.parquet", index=False)
    items.rename(columns={"what": "item", "kind": "category"}).to_parquet(
        folder / "items.parquet", index=False
    )
    counts = json.loads(printed(capsys, "shop", "--json"))["counts"]
    assert (counts["users"], counts["items"], counts["behaviors"]) == (20, ITEMS, 200)
    assert counts["values"] == {"category": 3}


@pytest.mark.slow
def test_the_table_names_stages_engines_and_assumptions(capsys):
    text = printed(capsys, "simulated", *COUNTS, "--samples=100000", "--model=base", "--days=20")
    assert "simulated: 1,000 users, 500 items, 20,000 behaviours, 100,000 samples" in text
    for line in ("train base", "score", "retrain (warm_start)", "from where on which engine pays:", "assumptions:"):  # fmt: skip
        assert line in text
    assert "the samples are those of 20 days" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["shopp", *COUNTS], "shopp is not a dataset; the datasets are"),
        (["simulated", *COUNTS, "--samples=9", "--model=dinn"], "--model: dinn is not a model; the models are"),
        (["simulated", *COUNTS, "--samples=9", "--model=popularity"], "--model: popularity is fitted in one step"),
        (["simulated", *COUNTS, "--samples=9", "--memory=lots"], "--memory: found 'lots', expected an amount"),
        (["simulated", *COUNTS, "--samples=9", "--values=colour=3"], "--values: found 'colour=3', expected FEATURE=N"),
        (["simulated", *COUNTS, "--samples=9", "--values=shop=many"], "--values: found 'shop=many'"),
        (["amazon_books", "--users=10"], "Without the files, give --items, --behaviors."),
        (["kuairand", "--users=10", "--items=9", "--behaviors=9"], "Without the files, give --samples."),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("DEEP_INTEREST_RAW", str(tmp_path))
    assert main(["plan", *arguments]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("error: ")
    assert error.count("\n") == 1


@pytest.mark.slow
def test_a_count_below_one_is_wrong_usage(capsys):
    assert main(["plan", "simulated", "--users=0"]) == 2
    assert "--users" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "expected"),
    [("64GB", 64 * 10**9), ("1.5 tb", 15 * 10**11), ("1000", 1000), ("2g", 2 * 10**9)],
)
def test_an_amount_of_memory(text, expected):
    assert bytes_of(text) == expected


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "0", "5 parsecs", "1e3"])
def test_what_is_not_an_amount_of_memory(text):
    with pytest.raises(InputError, match="--memory: found"):
        bytes_of(text)

"""Steps of docs/own-data.md: its files (with more rows of the same kind), its block and its commands."""

import json
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
import yaml
from support.forked import Forked, run
from support.project import copy_project, environment

from deep_interest.pipelines.ingest.nodes import make_ingest_tables
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.samples.nodes import build_vocabularies, samples_from_impressions

PAGE = (Path(__file__).parents[2] / "docs/own-data.md").read_text(encoding="utf-8")
BERLIN = ZoneInfo("Europe/Berlin")
KINDS = ["Tea", "Coffee", "Oil & Vinegar", "Crème fraîche"]
LABELS = ["organic", "organic | fair", "", "new|fair|organic", "new"]
FIRST = datetime(2024, 3, 24, 6, tzinfo=UTC)  # the clocks change within the log


def tables_of_the_page() -> dict[str, str]:
    """Return ``{file name: first lines}`` of the files on the page."""
    return dict(re.findall(r"`([^`]+\.csv)`[^`]*\n\n```csv\n(.*?)```", PAGE, flags=re.DOTALL))


def more_rows(customers: int = 60, days: int = 9) -> dict[str, list[str]]:
    """Return rows of customers who prefer one kind of item; every tenth customer has no profile."""
    rng, outcomes = np.random.default_rng(0), np.random.default_rng(1)
    rows: dict[str, list[str]] = {"visits 2024.csv": [], "banner.csv": [], "customers.csv": []}
    for index in range(3, customers):
        customer, preferred = f"K-{index:04}", rng.integers(4)
        if index % 10:
            rows["customers.csv"].append(f"{customer},{rng.choice(['Plus', 'Basic'])},{rng.integers(16, 80)}")
        for second in np.sort(rng.integers(0, days * 86_400, 24)):
            time = FIRST + timedelta(seconds=int(second))
            article = int(rng.integers(40)) if rng.random() < 0.3 else int(rng.integers(10)) * 4 + preferred
            if rng.random() < 0.5:
                local = time.astimezone(BERLIN).replace(tzinfo=None).isoformat()
                action = rng.choice(["viewed", "bought", "searched"])
                rows["visits 2024.csv"].append(
                    f"{customer};{local};{action};SKU-{article:02};{KINDS[article % 4]};{2 + article / 4};{LABELS[article % 5]};"
                    f"{outcomes.integers(200)};{outcomes.choice(['', *'12345'])}"
                )
            else:
                outcome = "click" if rng.random() < (0.6 if article % 4 == preferred else 0.1) else ""
                stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ")
                rows["banner.csv"].append(
                    f"{customer},SKU-{article:02},{stamp},{rng.choice(['top', 'side'])},{outcome}"
                )
    return rows


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = copy_project(tmp_path_factory.mktemp("own_data") / "project")
    raw = folder / "data/01_raw/my_shop"
    raw.mkdir(parents=True)
    rows = more_rows()
    for name, text in tables_of_the_page().items():
        (raw / name).write_text(text + "\n".join(rows[name]) + "\n", encoding="utf-8")
    block, *_ = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    (folder / "conf/base/parameters/my_shop.yml").write_text(block, encoding="utf-8")
    return folder


def test_the_test_extends_all_files_of_the_page(project):
    assert (
        set(tables_of_the_page())
        == set(more_rows())
        == {path.name for path in (project / "data/01_raw/my_shop").iterdir()}
    )


def test_check_describes_the_log_whatever_the_blocks_of_other_datasets(project):
    other = project / "conf/local/parameters_other.yml"
    other.parent.mkdir(exist_ok=True)
    other.write_text("datasets:\n  half: {title: Half}\n  simulated: {protocol: {name: nonsense}}\n")
    done = subprocess.run(
        [sys.executable, "-m", "deep_interest.commands.main", "check", "my_shop"], cwd=project, env=environment(), text=True,
        check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
    )  # fmt: skip
    other.unlink()
    assert done.returncode == 0, done.stdout
    assert "my_shop: My shop" in done.stdout
    assert "impressions whose user is not in the user table" in done.stdout
    assert re.search(r"rows of behaviors whose Action is not viewed or bought +\d", done.stdout)
    warnings = re.findall(r"warning: (.*)", done.stdout)
    assert [warning[:18] for warning in warnings] == [
        "the test set has o",
        "the validation set",
        "blocks of other da",
    ]
    assert warnings[2].endswith(": simulated (protocol.name), half (source is missing)")


def test_the_check_looks_for_leaks_by_intervention(project):
    done = Forked(
        ["deep-interest", "check", "my_shop", "--interventions"], cwd=project, env=environment()
    ).wait()
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    start = next(
        number for number, line in enumerate(lines) if line.startswith("interventions (GAUC of boosted trees")
    )
    names = [re.split(r"  +", line)[0] for line in lines[start + 1 : start + 8]]
    assert names == [
        "unchanged", "labels shuffled within users", "behaviours a day later", "without behaviours", "without item features",
        "without context", "without profile",
    ]  # fmt: skip
    assert all(
        re.search(r"\d\.\d{4} \[-?\d\.\d{4}, \d\.\d{4}\]", line) for line in lines[start + 1 : start + 8]
    )
    assert lines[start + 8].startswith(("no warning", "warning: "))


def test_one_block_is_enough_for_a_results_table(project):
    done = run(project, "--pipelines=my_shop")
    assert done.returncode == 0, done.stdout
    folder = project / "data/smoke/08_reporting/my_shop"
    table = pd.read_csv(folder / "results.csv").set_index("model")
    assert set(table.index) == {"popularity", "lr", "base", "din"}
    assert table["gauc"].between(0, 1, inclusive="neither").all()
    page = (folder / "results.md").read_text(encoding="utf-8")
    assert (
        table[["rela_impr", "difference_low"]].isna().all(axis=None)
    )  # four users are too few for a difference
    assert "the test set has only" in page
    assert all(f"| {name} |" in page for name in table["name"])
    summary = pd.read_csv(folder / "samples_summary.csv").set_index("split")
    impressions = sum(1 for _ in (project / "data/01_raw/my_shop/banner.csv").open()) - 1
    assert summary.loc["all", "rows"] == impressions


def test_each_tag_of_an_item_is_a_separate_value(project):
    schema = json.loads((project / "data/smoke/04_feature/my_shop/features/schema.json").read_text())
    (tags,) = (field for field in schema["item"] if field["name"] == "tags")
    assert tags == {"name": "tags", "size": 4, "pooling": "sum"}  # organic, fair, new and unknown


def test_days_and_histories_are_in_local_time(project):
    """The page's first rows: K-0001 clicked at 08:02:10 UTC of 25 March, after two behaviours of the day before."""
    samples = pd.read_parquet(project / "data/smoke/05_model_input/my_shop/samples.parquet")
    users = pd.read_parquet(project / "data/smoke/03_primary/my_shop/user_ids.parquet")["id"].tolist()
    stamp = int(datetime(2024, 3, 25, 8, 2, 10, tzinfo=UTC).timestamp()) * 1000
    first = samples[(samples["user"] == users.index("K-0001") + 1) & (samples["time"] == stamp)]
    assert first["history_end"].tolist() == [2]
    impressions = pd.read_parquet(project / "data/smoke/02_intermediate/my_shop/impressions.parquet")
    local = pd.to_datetime(impressions["time"], unit="ms", utc=True).dt.tz_convert("Europe/Berlin")
    assert (impressions["hour"] == local.dt.hour).all()
    assert (impressions["weekday"] == local.dt.day_of_week + 1).all()
    assert (
        impressions["day"] == (local.dt.tz_localize(None).dt.normalize() - pd.Timestamp("1970-01-01")).dt.days
    ).all()


def merged(block, more):
    """A block of configuration with the keys of another one."""
    both = {
        key: merged(block[key], more[key])
        for key in block.keys() & more.keys()
        if isinstance(more[key], dict)
    }
    return {**block, **more, **both}


def test_what_happened_in_a_behaviour_is_read_from_the_same_files(project):
    blocks = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)]
    (more,) = (block for block in blocks if block.get("features", {}).get("behavior"))
    settings = DatasetParameters.model_validate(merged(blocks[0]["datasets"]["my_shop"], more))
    behaviors, items, left_out, users, impressions = make_ingest_tables("my_shop")(
        project / "data/01_raw", settings
    )
    ids = build_vocabularies(behaviors, items, impressions)
    log, features, *_ = samples_from_impressions(
        behaviors, items, *ids, left_out, settings, users, impressions
    )
    assert [field.name for field in features.schema.own] == ["action", "seconds", "stars", "gap"]
    user = ids[0]["id"].tolist().index("K-0001") + 1
    history = log.history(user, 2, max_len=9)
    viewed, bought = behaviors[behaviors["user"] == "K-0001"].to_dict("records")
    assert (viewed["seconds"], bought["seconds"], bought["stars"]) == (74, 12, "4")
    assert pd.isna(viewed["stars"])
    assert history["stars"].tolist()[0] == 0 < history["stars"].tolist()[1]  # no star is "unknown"
    assert history["seconds"].tolist() == [3, 2]  # buckets: from 30 to 120, and from 5 to 30 seconds

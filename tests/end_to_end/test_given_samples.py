"""From the blocks of docs/own-data.md to the table: BARS' AmazonElectronics_x1, MIND, and an atomic file of RecBole."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from support.forked import Forked, run
from support.project import copy_project, environment

PAGE = (Path(__file__).parents[2] / "docs/own-data.md").read_text(encoding="utf-8")
MODELS = ["popularity", "base", "din"]
ITEMS, CATEGORIES = 40, 4
DATASETS = ("amazon_electronics_x1", "mind", "ml_100k")

pytestmark = pytest.mark.slow


def block_of(dataset: str) -> dict:
    """Return the block of the page, with few models."""
    blocks = [
        yaml.safe_load(text)["datasets"]
        for text in re.findall(r"```yaml\n(datasets:.*?)```", PAGE, flags=re.DOTALL)
    ]
    (block,) = [block[dataset] for block in blocks if dataset in block]
    return block | {"models": MODELS}


def click(rng: np.random.Generator, history: list[int], item: int) -> int:
    """Draw a click: likely if the history has the category of the item."""
    return int(
        rng.random() < (0.8 if item % CATEGORIES in {past % CATEGORIES for past in history[-3:]} else 0.1)
    )


def write_bars(folder: Path, rng: np.random.Generator) -> None:
    """Write train, valid and test with growing histories of 80 users."""
    rows: dict[str, list[str]] = {"train.csv": [], "valid.csv": [], "test.csv": []}
    for user in range(80):
        history: list[int] = []
        for step in range(12):
            name = "train.csv" if step < 8 else "valid.csv" if step < 10 else "test.csv"
            item = int(rng.integers(ITEMS))
            label, weight = click(rng, history, item), 1 + step % 3
            past, categories = (
                "^".join(map(str, values)) for values in (history, [i % CATEGORIES for i in history])
            )
            rows[name].append(f"{label},{user},{item},{item % CATEGORIES},{past},{categories},{weight}\n")
            if label:
                history = [*history, item]
    for name, lines in rows.items():
        (folder / name).write_text(
            "label,user_id,item_id,cate_id,item_history,cate_history,weight\n" + "".join(lines)
        )


def write_mind(folder: Path, rng: np.random.Generator) -> None:
    """Write four days of lists of six news items, and the news."""
    lines = []
    for day in range(9, 13):
        for user in range(60):
            history = [int(item) for item in rng.integers(ITEMS, size=rng.integers(0, 6))]
            shown = rng.choice(ITEMS, 6, replace=False)
            items = " ".join(f"N{item}-{click(rng, history, item)}" for item in shown)
            past = " ".join(f"N{item}" for item in history)
            lines.append(f"{len(lines)}\tU{user}\t11/{day}/2019 9:{user:02}:58 AM\t{past}\t{items}\n")
    (folder / "behaviors.tsv").write_text("".join(lines))
    news = [f'N{k}\tc{k % CATEGORIES}\ts{k % 8}\tSay "{k}\t\thttps://x/{k}\t[]\t[]\n' for k in range(ITEMS)]
    (folder / "news.tsv").write_text("".join(news))


def write_recbole(folder: Path, rng: np.random.Generator) -> None:
    """Write 60 days of ratings, movies and users as atomic files."""
    lines = ["user_id:token\titem_id:token\trating:float\ttimestamp:float\n"]
    for user in range(60):
        history: list[int] = []
        for time in np.sort(rng.integers(0, 60 * 86_400, 30)):
            item = int(rng.integers(ITEMS))
            label = click(rng, history, item)
            history += [item] * label
            lines.append(
                f"{user}\t{item}\t{4 + rng.integers(2) if label else rng.integers(1, 4)}\t{881250949 + time}\n"
            )
    (folder / "ml-100k.inter").write_text("".join(lines))
    movies = [f"{k}\tFilm {k}\t{1990 + k % 9}\tg{k % CATEGORIES} h{k % 3}\n" for k in range(ITEMS)]
    (folder / "ml-100k.item").write_text(
        "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\n" + "".join(movies)
    )
    people = [f"{k}\t{20 + k % 30}\t{'MF'[k % 2]}\tother\t{k}\n" for k in range(60)]
    (folder / "ml-100k.user").write_text(
        "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token\n" + "".join(people)
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = copy_project(tmp_path_factory.mktemp("given") / "project")
    writers = dict(zip(DATASETS, (write_bars, write_mind, write_recbole), strict=True))
    for number, (dataset, write) in enumerate(writers.items()):
        raw = folder / "data/01_raw" / dataset
        raw.mkdir(parents=True)
        write(raw, np.random.default_rng(number))
    blocks = {"datasets": {dataset: block_of(dataset) for dataset in DATASETS}}
    blocks["datasets"]["amazon_electronics_x1"]["source"]["impressions"]["weight"] = "weight"
    (folder / "conf/base/parameters/given.yml").write_text(yaml.safe_dump(blocks), encoding="utf-8")
    return folder


def checked(project: Path, dataset: str) -> str:
    done = Forked(["deep-interest", "check", dataset], cwd=project, env=environment()).wait()
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize(
    "dataset",
    [pytest.param(name, marks=[pytest.mark.nightly] if name != "ml_100k" else []) for name in DATASETS],
)
def test_a_block_of_the_page_is_enough_for_a_table(project, dataset):
    checked(project, dataset)
    done = run(project, f"--pipelines={dataset}")
    assert done.returncode == 0, done.stdout
    table = pd.read_csv(project / "data/smoke/08_reporting" / dataset / "results.csv").set_index("model")
    assert set(table.index) == set(MODELS)
    assert table["gauc"].between(0, 1, inclusive="neither").all()
    has_requests = dataset == "mind"
    assert ("ndcg_10" in table) == has_requests
    page = (project / "data/smoke/08_reporting" / dataset / "results.md").read_text(encoding="utf-8")
    assert ("GAUC by request" in page) == has_requests
    has_weights = dataset == "amazon_electronics_x1"
    assert ("weighted_auc" in table) == has_weights
    if has_weights:
        assert (table["weighted_auc"] != table["auc"]).all()
        assert table["weighted_logloss"].notna().all()


def test_samples_are_those_of_the_files(project):
    """Rows by split, and the mean length of the histories, counted in the CSV files."""
    assert run(project, "--pipelines=samples.amazon_electronics_x1").returncode == 0
    samples = pd.read_parquet(project / "data/smoke/05_model_input/amazon_electronics_x1/samples.parquet")
    names = {"train": "train.csv", "validation": "valid.csv", "test": "test.csv"}
    for split, name in names.items():
        rows = pd.read_csv(
            project / "data/01_raw/amazon_electronics_x1" / name, dtype=str, keep_default_na=False
        )
        own = samples[samples["split"] == split]
        assert len(own) == len(rows)
        assert own["label"].sum() == rows["label"].astype(int).sum()
        lengths = rows["item_history"].map(lambda past: len(past.split("^")) if past else 0)
        assert sorted(own["history_end"]) == sorted(lengths)


def test_the_check_counts_requests_and_histories(project):
    output = checked(project, "mind")
    assert re.search(r"^requests +240$", output, flags=re.MULTILINE)
    assert "distinct histories" in output
    assert "warning: the times" not in output


def test_a_model_of_given_histories_does_not_score_users(project):
    done = run(project, "--pipelines=score.amazon_electronics_x1.din")
    assert done.returncode != 0
    assert "score.amazon_electronics_x1.din" in done.stdout

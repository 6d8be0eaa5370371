"""The configuration's declared datasets, from small raw files in the official layouts to samples."""

import gzip

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from deep_interest.config import dataset_blocks
from deep_interest.errors import InputError
from deep_interest.pipelines.ingest.nodes import make_ingest_behaviors, make_ingest_tables
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.samples.nodes import (
    build_vocabularies,
    samples_from_behaviors,
    samples_from_impressions,
)


def settings_of(dataset, **changes):
    return DatasetParameters.model_validate(dataset_blocks()[dataset] | changes)


def from_impressions(dataset, raw, settings):
    """Return canonical impressions, log, features, samples and summary."""
    behaviors, items, left_out, users, impressions = make_ingest_tables(dataset)(raw, settings)
    ids = build_vocabularies(behaviors, items, impressions)
    return impressions, *samples_from_impressions(
        behaviors, items, *ids, left_out, settings, users, impressions
    )


def write(raw, **files):
    """Write each ``name=lines`` as CSV, compressed if the name ends in ``_gz``."""
    raw.mkdir(parents=True)
    for name, lines in files.items():
        text = "\n".join(lines) + "\n"
        if name.endswith("_gz"):
            (raw / f"{name.removesuffix('_gz')}.csv.gz").write_bytes(gzip.compress(text.encode()))
        else:
            (raw / f"{name}.csv").write_text(text)


def write_alibaba(raw):
    """Write eight days of the four tables; times start at midnight in Beijing."""
    start = 1494000000  # 6 May 2017, 00:00 in Beijing
    day = 86_400
    impression_rows = [
        f"{user},{start + k * day + 100 * user},{10 + (user + k) % 3},430548_1007,{1 - (user + k) % 2},{(user + k) % 2}"
        for k in range(8)
        for user in (1, 2)
    ]
    write(
        raw / "alibaba_ads",
        raw_sample=["user,time_stamp,adgroup_id,pid,nonclk,clk", *impression_rows],
        ad_feature=["adgroup_id,cate_id,campaign_id,customer,brand,price", "10,7,100,1,5,9.5", "11,8,101,1,NULL,20.0", "12,7,102,2,6,99.0"],
        user_profile_gz=["userid,cms_segid,cms_group_id,final_gender_code,age_level,pvalue_level,shopping_level,occupation,new_user_class_level ", "1,0,5,2,5,,3,0,3"],
        behavior_log=["user,time_stamp,btag,cate,brand", f"1,{start - 50},pv,7,5", f"1,{start - 40},buy,9,5", f"1,{start + 100},cart,7,5", f"2,{start - 9},fav,8,6"],
    )  # fmt: skip


@pytest.mark.slow
def test_alibaba_ads_is_read_from_four_tables(tmp_path):
    write_alibaba(tmp_path)
    settings = settings_of("alibaba_ads")
    impressions, log, features, samples, summary = from_impressions("alibaba_ads", tmp_path, settings)
    assert samples["split"].value_counts().to_dict() == {"train": 12, "validation": 2, "test": 2}
    first = samples[samples["time"] == samples["time"].min()]
    assert first["history_end"].tolist() == [2]  # without the cart event at the time of the impression
    assert {field.name for field in features.schema.behavior} == {"category", "brand"}
    category_7 = features.items["category"][int(first["item"].iloc[0])]
    history = log.history(int(first["user"].iloc[0]), 2, max_len=9)
    assert history["category"].tolist()[0] != category_7  # the candidate is ad 11, of category 8
    assert len(set(history["category"].tolist())) == 2
    assert set(impressions["hour"]) == {0}
    assert summary.set_index("split").loc["test", "unknown_items"] == 0


def write_kuairand(raw):
    """Write twelve days; time and date of impressions differ near midnight, and one row is repeated."""
    rows = []
    for k, date in enumerate([20220429, 20220430, *range(20220501, 20220509)]):
        midnight = 1651161600000 + k * 86_400_000  # in Beijing
        rows += [
            f"{user},{20 + (user + k) % 3},{date},{100 * k},{midnight - 5000 + user},{(user + k) % 2},1,{1000 * k},0"
            for user in (1, 2)
        ]
    rows.append(rows[-1])
    write(
        raw / "kuairand-pure",
        **{
            "log_standard_4_22_to_5_08_pure.part_gz": ["user_id,video_id,date,hourmin,time_ms,is_click,tab,play_time_ms,is_like", *rows],
            "user_histories_to_4_24_gz": ["user_id,history_len,last_time_ms,watch_seq,like_seq,long_watch_seq", "1,3,1650615878629,22 20 21,,22 21"],
            "video_features_basic_pure_gz": ["video_id,author_id,video_type,upload_type,video_duration,music_type,tag", *(f"{v},{v + 1},NORMAL,Web,{v}000.0,9.0,39" for v in (20, 21, 22))],
            "user_features_pure_gz": [",".join(["user_id", *settings_of("kuairand").features.profile]), *(",".join([str(u), *["1"] * 19]) for u in (1, 2))],
        },
    )  # fmt: skip


@pytest.mark.slow
def test_kuairand_uses_the_date_as_day_and_two_files_of_histories(tmp_path):
    write_kuairand(tmp_path)
    impressions, log, features, samples, summary = from_impressions(
        "kuairand", tmp_path, settings_of("kuairand")
    )
    assert samples["split"].value_counts().to_dict() == {"train": 2, "validation": 2, "test": 17}
    ends = samples[samples["user"] == 1].sort_values("time")["history_end"].tolist()
    clicks = (impressions[impressions["user"] == 1].sort_values("time")["label"]).tolist()
    assert ends == [2 + sum(clicks[:k]) for k in range(len(clicks))]
    assert (impressions["hour"].astype(int) // 100).between(0, 9).all()
    skipped = summary[summary["split"] == "left out"].set_index("reason")["rows"]
    assert skipped["rows of behaviors whose is_click is not 1"] == 10
    assert [field.name for field in features.schema.own] == ["watched", "liked", "gap"]
    assert log.history(1, 2, max_len=9)["watched"].tolist() == [
        0,
        0,
    ]  # the file of earlier histories does not say


@pytest.mark.slow
def test_taobao_predicts_page_views_from_all_actions_and_counts_malformed_lines(tmp_path):
    lines = [f"{u},{i},{i % 3},pv,{1511544070 + 60 * i}" for u in range(1, 9) for i in range(u, u + 5)]
    write(tmp_path / "taobao", UserBehavior_gz=[*lines, "1,99,1,buy,1511544075", "2,7,1,pv"])
    settings = settings_of("taobao")
    behaviors, items, left_out = make_ingest_behaviors("taobao")(tmp_path, settings)
    ids = build_vocabularies(behaviors, items)
    log, features, samples, _summary = samples_from_behaviors(behaviors, items, *ids, left_out, settings)
    assert left_out["malformed lines of behaviors"] == 1
    assert samples["label"].sum() == 8 * 4 + 1  # the first user's first page view has the purchase as history
    assert [field.name for field in features.schema.own] == ["action"]
    first = samples[samples["user"] == 1].iloc[0]
    assert first["history_end"] == 1
    purchase, view = log.history(1, 2, max_len=9)["action"].tolist()
    assert purchase != view
    assert {field.name for field in features.schema.item} == {"item_id", "category"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dataset", "file"),
    [("alibaba_ads", "behavior_log"), ("kuairand", "log_standard"), ("taobao", "UserBehavior")],
)
def test_a_missing_file_is_an_error_with_the_official_page(tmp_path, dataset, file):
    make = make_ingest_behaviors if dataset == "taobao" else make_ingest_tables
    settings = settings_of(dataset)
    with pytest.raises(InputError, match=rf"{file}.*no such file.*official page is {settings.source.page}"):
        make(dataset)(tmp_path, settings)


def write_own(raw, behaviors, impressions):
    (raw / "own").mkdir(parents=True)
    behaviors.to_parquet(raw / "own/behaviors.parquet")
    impressions.to_parquet(raw / "own/impressions.parquet")
    items = np.union1d(behaviors["item"], impressions["item"])
    pd.DataFrame({"item": items, "category": items % 7}).to_parquet(raw / "own/items.parquet")
    pd.DataFrame({"user": np.unique(impressions["user"])}).to_parquet(raw / "own/users.parquet")


def own_log(seed=0, rows=600):
    rng = np.random.default_rng(seed)
    columns = {
        "user": rng.integers(0, 30, rows),
        "item": rng.integers(0, 40, rows),
        "time": rng.integers(0, 6 * 86_400, rows),
    }
    impressions = {
        "user": rng.integers(0, 30, rows),
        "item": rng.integers(0, 40, rows),
        "time": rng.integers(0, 6 * 86_400, rows),
        "label": rng.integers(0, 2, rows),
    }
    return pd.DataFrame(columns), pd.DataFrame(impressions).drop_duplicates(["user", "item", "time"])


@pytest.mark.slow
def test_shuffling_the_future_does_not_change_the_past(tmp_path):
    behaviors, impressions = own_log()
    cut = 4 * 86_400
    rng = np.random.default_rng(1)
    later = behaviors["time"] >= cut
    shuffled = behaviors.copy()
    for column in ("user", "item"):
        shuffled.loc[later, column] = rng.permutation(behaviors.loc[later, column])
    after = impressions["time"] >= cut
    changed = impressions.copy()
    changed.loc[after, "label"] = rng.permutation(impressions.loc[after, "label"])
    outputs = []
    for name, (log, shown) in {
        "original": (behaviors, impressions),
        "shuffled": (shuffled.sample(frac=1, random_state=2), changed),
    }.items():
        write_own(tmp_path / name, log, shown)
        outputs.append(from_impressions("own", tmp_path / name, settings_of("own")))
    (_, log, features, samples, _), (_, other_log, other_features, other_samples, _) = outputs
    train = (samples["split"] == "train") & (samples["time"] < cut)
    assert train.sum() > 300
    pd.testing.assert_frame_equal(samples[train], other_samples[train])
    assert features.schema == other_features.schema
    for row in samples[train].itertuples():
        history, other_history = (
            which.history(row.user, row.history_end, max_len=50) for which in (log, other_log)
        )
        np.testing.assert_array_equal(history["item_id"], other_history["item_id"])
    for name in features.items:
        np.testing.assert_array_equal(features.items[name], other_features.items[name])


OWN_COLUMNS = {
    "item": ["item_id", "category"],
    "behavior": ["item_id", "category", "action", "dwell", "price", "tags", "hour", "weekday", "gap", "position"],
    "buckets": {"dwell": 4}, "standardised": ["price"], "multi_hot": {"tags": "|"},
    "sequences": {
        "bought": {"behavior": ["item_id", "action", "dwell", "gap"], "where": {"action": ["buy"]}, "history_days": 3},
        "late": {"behavior": ["item_id", "rating", "price", "tags", "hour"], "delay": 600},
        "skipped": {"source": "impressions", "behavior": ["item_id", "clicked", "position"], "delay": 60},
    },
}  # fmt: skip


def with_columns(behaviors, seed=0):
    """The behaviours with a column of each kind."""
    rng, rows = np.random.default_rng(seed), len(behaviors)
    tags = ["|".join(rng.choice(list("abcd"), rng.integers(1, 4), replace=False)) for _ in range(rows)]
    return behaviors.assign(
        action=rng.choice(["view", "cart", "buy"], rows), dwell=rng.exponential(30, rows).round(1),
        price=rng.normal(9, 3, rows).round(2), rating=rng.integers(1, 6, rows).astype(str), tags=tags,
    )  # fmt: skip


@pytest.mark.slow
def test_shuffling_the_future_changes_no_column_of_any_history(tmp_path):
    """All columns of behaviours, and labels, from the first validation day on; training samples see what they saw."""
    behaviors, impressions = own_log(seed=2)
    behaviors, cut, rng = with_columns(behaviors), 4 * 86_400, np.random.default_rng(1)
    later, after = behaviors["time"] >= cut, impressions["time"] >= cut
    shuffled, changed = behaviors.copy(), impressions.copy()
    for column in behaviors:
        if column != "time":
            shuffled.loc[later, column] = rng.permutation(behaviors.loc[later, column])
    changed.loc[after, "label"] = rng.permutation(impressions.loc[after, "label"])
    settings = settings_of("own", features=OWN_COLUMNS)
    outputs = []
    for name, (log, shown) in {"original": (behaviors, impressions), "shuffled": (shuffled, changed)}.items():
        write_own(tmp_path / name, log, shown)
        outputs.append(from_impressions("own", tmp_path / name, settings))
    (_, log, features, samples, _), (_, other_log, other_features, other_samples, _) = outputs
    train = samples["split"] == "train"
    assert samples.loc[train, "time"].max() < cut <= samples.loc[~train, "time"].min()
    pd.testing.assert_frame_equal(samples[train], other_samples[train])
    assert features.schema == other_features.schema
    assert {field.name for field in features.schema.behavior} == set(OWN_COLUMNS["behavior"])

    def compare(one, other, user, begin, end, names):
        start, other_start = (int(of.offsets[user]) for of in (one, other))
        assert names <= set(one.fields)
        for name in one.fields:
            seen, found = (
                one.fields[name][start + begin : start + end],
                other.fields[name][other_start + begin : other_start + end],
            )
            if name == "tags":
                seen, found = values_of(seen, features, name), values_of(found, other_features, name)
                assert seen == found
            else:
                np.testing.assert_array_equal(seen, found)
        if one.times is not None:
            np.testing.assert_array_equal(
                one.times[start + begin : start + end], other.times[other_start + begin : other_start + end]
            )

    compared = 0
    for row in samples[train].to_dict("records"):
        compare(
            log,
            other_log,
            row["user"],
            0,
            row["history_end"],
            {"action", "dwell", "price", "tags", "hour", "weekday"},
        )
        for name, columns in {
            "bought": {"action", "dwell"},
            "late": {"rating", "price", "tags", "hour"},
            "skipped": {"clicked"},
        }.items():
            begin, end = row[f"history_begin.{name}"], row[f"history_end.{name}"]
            compare(log.sequences[name], other_log.sequences[name], row["user"], begin, end, columns)
            compared += end - begin
    assert compared > 1000


def values_of(codes, features, name):
    """The sets of values of a multi-hot field."""
    sets = features.value_sets[name]
    return [sorted(sets.values[sets.offsets[code] : sets.offsets[code + 1]].tolist()) for code in codes]


@pytest.mark.slow
def test_a_user_may_have_a_million_behaviours(tmp_path):
    rng = np.random.default_rng(0)
    behaviors = pd.DataFrame(
        {"user": 3, "item": rng.integers(0, 5_000, 1_000_000), "time": np.arange(1_000_000) // 3}
    )
    _, impressions = own_log()
    write_own(tmp_path, behaviors, impressions)
    _, log, _, samples, _ = from_impressions("own", tmp_path, settings_of("own"))
    user_samples = samples[samples["user"] == samples.loc[samples["history_end"] > 0, "user"].iloc[0]]
    times = behaviors.drop_duplicates(["item", "time"])["time"].to_numpy()
    np.testing.assert_array_equal(user_samples["history_end"], np.searchsorted(times, user_samples["time"]))
    assert log.behaviors == len(times)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("features", "message"),
    [
        (
            {"context": ["hour"]},
            "features.context describes impressions, but the dataset has none; remove hour",
        ),
        ({"profile": ["user_id", "age"]}, "the user table is used with impressions only, .*; remove age"),
    ],
)
def test_features_of_impressions_need_impressions(features, message):
    with pytest.raises(ValidationError, match=message):
        settings_of("taobao", features=features)
    assert settings_of("taobao", features={"item": ["item_id"], "profile": ["user_id"]}).features.profile

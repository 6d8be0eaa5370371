"""Model cards: what they say, and that any reader of front matter can read them."""

import copy

import pytest
import yaml

from deep_interest.serving.model_card import calibration_phrase, model_card

METRICS = {
    "gauc": 0.61,
    "auc": 0.7,
    "logloss": 0.5,
    "calibration": 1.02,
    "users": 300,
    "user_coverage": 0.8,
    "samples": 5000,
}
GROUP = {
    "name": "no behaviour",
    "samples": 100,
    "users": 3,
    "gauc": None,
    "low": None,
    "high": None,
    "calibration": 1.5,
}
MANIFEST = {
    "version": "2024-03-14-0a1b2c3d", "dataset": "shop", "model": "din", "strategy": "warm_start", "parent": "2024-03-13-ffffffff",
    "days": {"trained": ["2024-03-01", "2024-03-14"], "fitted_on": ["2024-03-14"], "held_out": "2024-03-15"},
    "config": {"hidden": [200, 80]}, "training": {"max_len": 50, "learning_rate": 0.001}, "samples": 12345, "parameters": 2898,
    "schema": {"item": [{"name": "item_id", "size": 9}], "behavior": [{"name": "item_id", "size": 9}], "profile": [], "context": []},
    "precision": {"tables": "int8", "attention": "float32"}, "code": {"deep_interest": "0.1.0", "torch": "2.13.0"},
    "verdict": {
        "promoted": True, "challenger": METRICS, "champion": METRICS | {"gauc": None},
        "gain": {"difference": 0.012, "low": 0.002, "high": 0.022, "p_value": 0.01},
        "checks": [{"name": "calibration", "found": 1.02, "expected": "0.7 to 1.4", "passed": True}],
        "groups": [GROUP, GROUP | {"name": "1 to 4 behaviours", "gauc": 0.61, "low": 0.5, "high": 0.72}],
    },
}  # fmt: skip


def front_matter(card: str) -> dict:
    beginning, text, _ = card.split("---\n", 2)
    assert beginning == ""
    return yaml.safe_load(text)


def test_the_front_matter_has_the_fields_that_the_hub_reads():
    fields = front_matter(model_card(MANIFEST))
    assert fields["library_name"] == "deep-interest"
    assert fields["tags"] == ["click-through-rate", "recommendation", "din"]
    (index,) = fields["model-index"]
    (result,) = index["results"]
    assert index["name"] == "shop.din 2024-03-14-0a1b2c3d"
    assert result["task"]["type"] == "tabular-classification"
    assert result["dataset"] == {"type": "shop", "name": "shop", "split": "2024-03-15"}
    assert {metric["type"]: metric["value"] for metric in result["metrics"]} == {
        "gauc": 0.61, "auc": 0.7, "logloss": 0.5, "calibration": 1.02,
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "Trained on 2024-03-01 to 2024-03-14, 2 days (warm start, continues from `2024-03-13-ffffffff`)",
        "This fit: 12,345 samples of 2024-03-14, over all epochs. Held out: 2024-03-15.",
        "2,898 parameters. Serves with int8 tables and float32 attention.",
        "| hidden | [200, 80] |",
        "| GAUC | 0.6100 | – |",
        "GAUC compared with the champion before: +0.0120 [+0.0020, +0.0220], interval over users.",
        "The version passed the gate:",
        "| no behaviour | 100 | 3 | – | 1.5000 |",
        "| 1 to 4 behaviours | 100 | 3 | 0.6100 [0.5000, 0.7200] | 1.5000 |",
        "The model sees the newest 50 behaviours of a user.",
        "[Zhou et al. 2018, Deep Interest Network](https://arxiv.org/abs/1706.06978)",
    ],
)
def test_the_card_says(text):
    assert text in model_card(MANIFEST)


def test_a_first_version_that_did_not_pass_is_compared_with_popularity():
    manifest = copy.deepcopy(MANIFEST) | {"parent": None}
    manifest["verdict"] |= {"champion": None, "promoted": False, "groups": []}
    card = model_card(manifest)
    assert (
        "first version" in card
        and "compared with popularity" in card
        and "The version did not pass the gate" in card
    )
    assert "## For whom" not in card


def test_values_cannot_break_the_table_or_add_elements():
    manifest = copy.deepcopy(MANIFEST)
    manifest["config"] = {"without": ["a | b", "<script>", "c\nd"]}
    card = model_card(manifest)
    (row,) = [line for line in card.splitlines() if line.startswith("| without")]
    assert row.count("|") - row.count("\\|") == 3 and "<script" not in card


def test_a_version_without_a_verdict_has_no_metrics():
    manifest = {key: value for key, value in MANIFEST.items() if key not in ("verdict", "parameters")}
    card = model_card(manifest)
    assert "model-index" not in front_matter(card)
    assert "## Quality" not in card and "## Limits" in card


SEGMENT = {
    "name": "decile 10 of the prediction", "samples": 1234, "clicks": 600, "observed": 0.4862, "model": [1.12, 1.04, 1.19],
    "served": [1.005, 0.96, 1.05],
}  # fmt: skip
ISOTONIC = {
    "method": "isotonic", "negatives_kept": 0.25, "negatives_logged": 0.25, "users": 204, "samples": 3338, "clicks": 873,
}  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "lines"),
    [
        (
            ISOTONIC,
            [
                "Isotonic calibration, corrected for sampled negatives (0.25 kept). The map was fitted on 3,338 impressions (873 clicks) of 204 users "
                "on 2024-03-15,",
                "The log has 0.25 of the impressions without a click: each counts 4 times.",
                "| impressions | number | observed CTR | model | calibrated |",
                "| decile 10 of the prediction | 1,234 | 0.4862 | 1.120 [1.040, 1.190] | 1.005 [0.960, 1.050] |",
                "Probabilities are those of the traffic of 2024-03-15.",
            ],
        ),
        (
            {"method": "sampling", "negatives_kept": 0.25, "negatives_logged": 1.0},
            ["Corrected for sampled negatives (0.25 kept).", "| model | calibrated |"],
        ),
        (
            None,
            ["Not calibrated.", "| decile 10 of the prediction | 1,234 | 0.4862 | 1.120 [1.040, 1.190] |\n", "| – |\n"],
        ),
    ],
)  # fmt: skip
def test_the_card_says_whether_probabilities_are_calibrated_and_how_well(facts, lines):
    undefined = SEGMENT | {"name": "no behaviour", "model": [None] * 3, "served": [None] * 3}
    manifest = MANIFEST | {
        "calibration": facts, "verdict": MANIFEST["verdict"] | {"segments": [SEGMENT, undefined]},
    }  # fmt: skip
    card = model_card(manifest)
    for line in lines:
        assert line in card


def test_the_card_of_a_version_from_before_calibrations_says_that_it_has_none():
    card = model_card(MANIFEST)
    assert "Not calibrated." in card
    assert "those of the log that the version was trained on" in card
    assert calibration_phrase(ISOTONIC | {"negatives_kept": 1.0}) == "isotonic calibration"

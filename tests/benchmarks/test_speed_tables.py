import json

import pandas as pd
import pytest
from cases import AUTHORS_DIEN, PAPER_DIEN, PAPER_LAYERS, Case, forms
from compare import key_of, pending
from page_parts import between_markers, with_sections
from speed_tables import readme_table, summary

AUTHORS = "attention net 80-40, auxiliary net 100-50-1"


def line(peer, peer_name, speed, theirs, *, model="din", layers="attention net 80-40", form="like for like"):
    return key_of(peer, Case(model, 128), 2) | {
        "peer_name": peer_name, "form": form, "layers": layers, "samples_per_s": speed, "peer_samples_per_s": theirs,
        "ratio": round(speed / theirs, 2),
    }  # fmt: skip


DIN = [
    line("deepctr_torch", "DeepCTR-Torch", 5000, 1000),
    line("recbole", "RecBole", 5000, 500),
    line("plain", "plain PyTorch", 4800, 3200),
    line("plain_compiled", "plain PyTorch, torch.compile", 4900, 3500),
]
DIEN = [
    line("deepctr_torch", "DeepCTR-Torch", 900, 100, model="dien", layers=AUTHORS),
    line("deepctr_torch", "DeepCTR-Torch", 1400, 100, model="dien", layers=PAPER_LAYERS, form="paper"),
    line("torch_rechub", "torch-rechub", 1500, 250, model="dien", layers=PAPER_LAYERS),
]


def test_summary_takes_the_library_whose_ratio_is_lowest():
    row = summary(pd.DataFrame(DIN)).iloc[0]
    assert (row["library"], row["samples_per_s"], row["library_samples_per_s"], row["ratio"]) == (
        "DeepCTR-Torch", 5000, 1000, 5.0,
    )  # fmt: skip
    assert (row["plain_samples_per_s"], row["plain_ratio"], row["compiled_ratio"]) == (3200, 1.5, 1.4)


def test_dien_in_the_papers_form_is_a_row_of_its_own():
    rows = summary(pd.DataFrame(DIEN)).set_index("form")
    assert rows.loc["like for like", ["library", "ratio"]].tolist() == ["torch-rechub", 6.0]
    assert rows.loc["paper", ["library", "ratio"]].tolist() == ["torch-rechub", 6.0]
    without = summary(pd.DataFrame(DIEN[:2])).set_index("form")
    assert without["ratio"].to_dict() == {"like for like": 9.0, "paper": 14.0}


def test_a_comparison_made_again_replaces_the_older_one():
    rows = summary(pd.DataFrame([*DIN, line("deepctr_torch", "DeepCTR-Torch", 4000, 1000)]))
    assert rows["ratio"].tolist() == [4.0]


def test_readme_table_shows_both_ratios_and_what_is_missing():
    *_, row = readme_table(summary(pd.DataFrame(DIN[:3]))).splitlines()
    assert row == "| DIN | mean 9 | 128 | 64 + 64 | 5.0 × | 1.5 × | 5,000 | 1,000 (DeepCTR-Torch) | 3,200 |"
    *_, row = readme_table(summary(pd.DataFrame(DIN[2:3]))).splitlines()
    assert row == "| DIN | mean 9 | 128 | 64 + 64 | – | 1.5 × | 4,800 | – | 3,200 |"


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        ("deepctr_torch", [("like for like", AUTHORS_DIEN), ("paper", PAPER_DIEN)]),
        ("plain", [("like for like", AUTHORS_DIEN), ("paper", PAPER_DIEN)]),
        ("torch_rechub", [("like for like", PAPER_DIEN)]),
        ("fuxictr", [("like for like", {"attention": "din", "aux_weight": 0.0}), ("paper", PAPER_DIEN)]),
    ],
)
def test_our_dien_has_the_layers_of_each_peer(peer, expected):
    assert [(form.name, form.options) for form in forms("dien", peer)] == expected


def test_comparisons_that_a_file_holds_are_not_made_again(tmp_path):
    cases, peers = [Case("din", 1024), Case("din", 128)], ["plain", "recbole"]
    out = tmp_path / "compare.jsonl"
    assert len(list(pending(cases, peers, threads=2, out=out))) == 4
    out.write_text("".join(json.dumps(made | {"range": [1, 2]}) + "\n" for made in DIN))
    left = list(pending(cases, peers, threads=2, out=out))
    assert left == [(cases[0], "plain"), (cases[0], "recbole")]
    assert len(list(pending(cases, peers, threads=1, out=out))) == 4


def test_a_page_keeps_the_sections_that_were_not_measured():
    page = "# Page\n\nHead.\n\n## One\n\nold one\n\n## Two\n\nold two\n\n## Gone\n\nno longer made\n"
    found = with_sections(
        page, {"One": "## One\n\nnew one", "Three": "## Three\n\nthree"}, ["Three", "One", "Two"]
    )
    assert found == "# Page\n\nHead.\n\n## Three\n\nthree\n\n## One\n\nnew one\n\n## Two\n\nold two\n"


def test_only_the_part_between_markers_is_replaced():
    text = "before\n<!-- speed -->\nold\n<!-- /speed -->\nafter\n"
    assert between_markers(text, "speed", "new") == "before\n<!-- speed -->\nnew\n<!-- /speed -->\nafter\n"
    with pytest.raises(ValueError, match="<!-- speed -->"):
        between_markers("none", "speed", "new")

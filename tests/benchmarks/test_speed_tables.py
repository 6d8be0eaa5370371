import json

import pandas as pd
import pytest
from cases import AUTHORS_DIEN, PAPER_DIEN, PAPER_LAYERS, Case, forms
from compare import key_of, pending
from page import compare_section, measured_by, read
from page_parts import between_markers, with_machine
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


PAGE = """# Page

Head.

<!-- machine: A -->
## Machine A

### One

old one

### By hand

kept

### Two

old two
<!-- /machine -->

<!-- machine: B -->
## Machine B

### One

of B
<!-- /machine -->
"""


def test_only_measured_sections_of_the_machine_are_replaced():
    page = with_machine(PAGE, "A", {"One": "new one", "Three": "three"}, ["Three", "One", "Two"])
    part = "### Three\n\nthree\n\n### One\n\nnew one\n\n### Two\n\nold two\n\n### By hand\n\nkept\n"
    before, rest = PAGE.split("### One", 1)
    assert page == before + part + "<!-- /machine -->" + rest.split("<!-- /machine -->", 1)[1]


def test_a_new_machine_comes_before_the_others_which_stay():
    page = with_machine(PAGE, "C", {"One": "of C"}, ["One"])
    part = "<!-- machine: C -->\n## C\n\n### One\n\nof C\n<!-- /machine -->\n\n"
    assert page == PAGE.replace("<!-- machine: A -->", part + "<!-- machine: A -->")
    assert with_machine(page, "C", {"One": "of C"}, ["One"]) == page


def test_a_page_without_machines_gets_its_first_one():
    page = with_machine("# Page\n", "C", {"One": "of C"}, ["One"])
    assert page == "# Page\n\n<!-- machine: C -->\n## C\n\n### One\n\nof C\n<!-- /machine -->\n"


def test_a_machine_without_end_marker_is_an_error():
    with pytest.raises(ValueError, match="<!-- /machine --> is missing after <!-- machine: A -->"):
        with_machine("<!-- machine: A -->\n## A\n", "A", {}, [])


def test_lines_are_grouped_by_machine_and_benchmark(tmp_path):
    file = tmp_path / "lines.jsonl"
    lines = [{"bench": "scale", "slope": 1.0}, DIN[0] | {"machine": "B", "commit": "abc1234"}, DIN[1]]
    file.write_text("a log line\n" + "".join(json.dumps(line) + "\n" for line in lines))
    tables = read([file], machine="A", commit="def5678")
    assert {name: list(own) for name, own in tables.items()} == {"A": ["scale", "compare"], "B": ["compare"]}
    assert tables["B"]["compare"]["peer"].tolist() == ["deepctr_torch"]
    assert tables["A"]["compare"]["batch_size"].tolist() == [128]
    assert (
        measured_by("compare", tables["B"]["compare"])
        == "`python benchmarks/compare.py`, commit abc1234, 2 threads."
    )
    assert measured_by("scale", tables["A"]["scale"]) == "`python benchmarks/scale.py`, commit def5678."


def test_lines_of_the_page_are_short_enough_to_read(monkeypatch):
    monkeypatch.setattr("page.plot_ratios", lambda best, machine: "images/ratios.png")
    widest = [
        line(peer, name, 111_111, 11_111, model="dien", layers=layers, form=form)
        for peer, name in (
            ("plain_compiled", "plain PyTorch, torch.compile"),
            ("fuxictr", "FuxiCTR (LongCTR)"),
        )
        for form, layers in (("like for like", AUTHORS), ("paper", PAPER_LAYERS))
    ]
    section = compare_section(pd.DataFrame(widest), "A")
    assert "80-40, aux 100-50-1" in section
    assert "bilinear, inner-product aux" in section
    assert max(map(len, section.splitlines())) <= 120


def test_only_the_part_between_markers_is_replaced():
    text = "before\n<!-- speed -->\nold\n<!-- /speed -->\nafter\n"
    assert between_markers(text, "speed", "new") == "before\n<!-- speed -->\nnew\n<!-- /speed -->\nafter\n"
    with pytest.raises(ValueError, match="<!-- speed -->"):
        between_markers("none", "speed", "new")

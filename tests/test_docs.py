"""The documentation agrees with the project: code, options, paths and links."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pandas as pd
import pytest
import yaml

from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.models.registry import MODELS
from deep_interest.training.parameters import TrainingOptions

PROJECT = Path(__file__).parents[1]
GUIDE = (PROJECT / "CONTRIBUTING.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, flags=re.DOTALL)


def test_the_example_model_of_the_guide_is_the_one_in_the_project():
    options, file, line, *_ = blocks("python")
    assert options.strip() == (PROJECT / "src/deep_interest/models/configs/fm.py").read_text().strip()
    assert file.strip() == (PROJECT / "src/deep_interest/models/fm.py").read_text().strip()
    assert line in (PROJECT / "src/deep_interest/models/registry.py").read_text()
    assert "fm" in MODELS
    parameters = yaml.safe_load((PROJECT / "conf/base/parameters/models.yml").read_text())
    assert yaml.safe_load(blocks("yaml")[0])["fm"] == parameters["models"]["fm"]


@pytest.mark.parametrize(
    "page", ["CONTRIBUTING.md", "README.md", "docs/architecture.md", "docs/faq.md", "docs/engine.md"]
)
def test_paths_in_the_text_exist(page):
    text = re.sub(r"```.*?```", "", (PROJECT / page).read_text(), flags=re.DOTALL)
    named = re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.(?:py|yml|md))?|[a-z_]+\.py)`", text)
    roots = [PROJECT, PROJECT / "src/deep_interest"]
    written_later = {"plays.py", "my_shop.yml"}  # by readers of the page; files in `data/` by runs
    missing = [
        path
        for path in named
        if Path(path).name.removeprefix("test_") not in written_later
        and not path.startswith("data/")
        and not any((root / path).exists() for root in roots)
    ]
    assert len(named) >= 1
    assert missing == []


def test_the_models_page_lists_every_row_and_recipe():
    page = (PROJECT / "docs/models.md").read_text()
    recipes = yaml.safe_load((PROJECT / "conf/base/parameters/recipes.yml").read_text())["recipes"]
    for key in [*(key for key, row in MODELS.items() if not row.ablation), *recipes]:
        assert f"`{key}`" in page, key


def test_the_pages_name_every_option():
    models, own_data = ((PROJECT / f"docs/{name}.md").read_text() for name in ("models", "own-data"))
    of_models = {
        name
        for row in MODELS.values()
        for name, option in row.config().model_fields.items()
        if option.annotation != Literal[0]
    }
    for name in of_models | set(TrainingOptions.model_fields):
        assert f"`{name}`" in models, name
    for name in set(ProtocolParameters.model_fields) - {
        "name",
        "positive_rating",
        "day_seconds",
        "day_offset",
    }:
        assert f"{name}: " in own_data, name  # those are of single sources


@pytest.mark.slow
def test_the_site_has_no_broken_link(tmp_path):
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],  # quiet, it lets broken links pass
        cwd=PROJECT, text=True, check=False, capture_output=True,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    pages = (tmp_path / "index.html").read_text()
    assert "fonts.googleapis" not in pages
    assert "Add a kernel" in (tmp_path / "contributing.html").read_text()
    assert "Unreleased" in (tmp_path / "changelog.html").read_text()


def test_the_tuning_page_shows_the_configuration_as_it_is():
    page = (PROJECT / "docs/tuning.md").read_text()
    shown = yaml.safe_load(re.search(r"```yaml\n(.*?)```", page, flags=re.DOTALL)[1])["tuning"]
    tuning = yaml.safe_load((PROJECT / "conf/base/parameters/tuning.yml").read_text())["tuning"]
    assert shown["n_trials"] == tuning["n_trials"]
    for block, ranges in shown["ranges"].items():
        for name, found in ranges.items():
            assert tuning["ranges"][block][name] == found
    assert shown["models"]["dien"] == tuning["models"]["dien"]


def missing_csv(folder):
    """Pages that claim to be made by a version, without a CSV that has a row for each row of the page's table."""
    missing = []
    for page in folder.glob("*.md"):
        text = page.read_text()
        if page.name == "README.md" or not re.search(r"^Made by version \d", text, re.MULTILINE):
            continue
        table = page.with_suffix(".csv")
        names = set(pd.read_csv(table)["name"]) if table.exists() else set()
        if not names or any(f"| {name} |" not in text for name in names):
            missing.append(page.name)
    return missing


def test_a_result_page_of_the_present_version_has_its_csv():
    assert missing_csv(PROJECT / "docs/results") == []


def test_a_result_page_without_its_csv_is_found(tmp_path):
    (tmp_path / "old.md").write_text("# Old\n\n| DIN | 0.7 |\n")
    page = "# Shop\n\nMade by version 1.0.0.\n\n| Model | GAUC |\n|---|---|\n| DIN | 0.7 |\n"
    (tmp_path / "shop.md").write_text(page)
    assert missing_csv(tmp_path) == ["shop.md"]
    (tmp_path / "shop.csv").write_text("model,name,gauc\nlr,LR,0.7\n")  # another table
    assert missing_csv(tmp_path) == ["shop.md"]
    (tmp_path / "shop.csv").write_text("model,name,gauc\ndin,DIN,0.7\n")
    assert missing_csv(tmp_path) == []

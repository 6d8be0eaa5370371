"""What the documentation shows is what is there."""

import re
from pathlib import Path

import yaml

from deep_interest.models.registry import MODELS

PROJECT = Path(__file__).parents[1]
GUIDE = (PROJECT / "docs/add-a-model.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, flags=re.DOTALL)


def test_the_guides_model_is_the_one_in_the_project():
    file, line = blocks("python")
    assert file.strip() == (PROJECT / "src/deep_interest/models/fm.py").read_text().strip()
    assert line in (PROJECT / "src/deep_interest/models/registry.py").read_text()
    assert "fm" in MODELS
    parameters = yaml.safe_load((PROJECT / "conf/base/parameters/models.yml").read_text())
    assert yaml.safe_load(blocks("yaml")[0])["fm"] == parameters["models"]["fm"]


def test_the_models_page_lists_every_row_and_recipe():
    page = (PROJECT / "docs/models.md").read_text()
    recipes = yaml.safe_load((PROJECT / "conf/base/parameters/recipes.yml").read_text())["recipes"]
    for key in [*(key for key, row in MODELS.items() if not row.ablation), *recipes]:
        assert f"`{key}`" in page, key

"""Purchases, and impressions without a click, as sequences of their own: from configuration to table."""

import pandas as pd
import pytest
import torch
from support.forked import run
from support.project import copy_project

SHOP = """
datasets:
  simulated_sequences:
    title: Shop with sequences
    source:
      folder: .
      behaviors: {files: behaviors.parquet}
      items: {files: items.parquet}
      users: {files: users.parquet}
      impressions: {files: impressions.parquet}
    protocol: {name: by_day, history_days: 14, auxiliary_negatives: shown}
    recipe: demo
    models: [base, din]
    features:
      item: [item_id, category]
      behavior: [item_id, category, action, dwell, gap]
      buckets: {dwell: 4}
      sequences:
        bought: {where: {action: [cart, purchase]}, behavior: [item_id, category, gap], max_len: 20}
        skipped: {source: impressions, where: {clicked: [0]}, behavior: [item_id, position], history_days: 3, delay: 600}
    simulation: {actions: {}}
"""


@pytest.mark.nightly
@pytest.mark.slow
def test_models_of_a_shop_with_several_sequences(tmp_path):
    project = copy_project(tmp_path / "project")
    (project / "conf/base/parameters/sequences.yml").write_text(SHOP)
    for pipeline in ("simulated_sequences", "simulated_sequences.dien", "simulated_sequences.lr"):
        finished = run(project, f"--pipelines={pipeline}", "--params=training.seeds=1")
        assert finished.returncode == 0, finished.stdout[-3000:]
    table = pd.read_csv(project / "data/smoke/08_reporting/simulated_sequences/results.csv")
    assert set(table["model"]) >= {"base", "din"}
    samples = pd.read_parquet(project / "data/smoke/05_model_input/simulated_sequences/samples.parquet")
    for name in ("bought", "skipped"):
        assert (samples[f"history_end.{name}"] > 0).any()
    assert (samples["history_begin"] > 0).any()
    checkpoint = project / "data/smoke/06_models/simulated_sequences/dien/checkpoint.pt"
    (state,) = torch.load(checkpoint, weights_only=True)["states"]
    assert {"sequences.bought.extractor.bias", "sequences.skipped.extractor.bias"} <= set(state)
    refused = run(project, "--pipelines=retrain.simulated_sequences.din")
    assert refused.returncode != 0
    assert "Traceback" not in refused.stdout

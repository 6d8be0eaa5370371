"""The papers' plots and explanations, from models trained on a small dataset."""

import numpy as np
import pandas as pd
import pytest
from support.training import CATEGORIES, ITEMS, small_data

from deep_interest.errors import InputError
from deep_interest.reporting import plots
from deep_interest.reporting.dataset_view import DatasetView
from deep_interest.reporting.explain import explain
from deep_interest.training.parameters import Recipe, RowOptions, RunParameters
from deep_interest.training.runs import Experiment, predict_experiment, train_experiment

DATA = small_data()
RUN = RunParameters(device="cpu", processes=1, threads=1)
ITEM_IDS = pd.DataFrame({"id": [f"I{k}" for k in range(1, ITEMS + 1)]})


@pytest.fixture(scope="module")
def view():
    category = pd.Series([f"C{1 + k % CATEGORIES}" for k in range(ITEMS)])
    users = pd.DataFrame({"id": [f"U{k}" for k in range(1, 61)]})
    return DatasetView(DATA, users, ITEM_IDS, pd.DataFrame({"item": ITEM_IDS["id"], "category": category}))


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    recipe = Recipe(
        training={"epochs": 1, "batch_size": 64},
        model={"embedding_dim": 4, "hidden": (8,), "attention_hidden": (8,)},
    )
    run = RUN.model_copy(update={"workspace": str(tmp_path_factory.mktemp("fits"))})
    rows = {
        "base": {},
        "din": {},
        "din_softmax": {"normalize": "softmax"},
        "din_dice": {"activation": "dice"},
        "dien": {"aux_weight": 1.0},
    }
    return {
        key: train_experiment(Experiment("small", key, RowOptions(options), recipe, (1,), run), DATA)
        for key, options in rows.items()
    }


def test_dice_is_drawn_with_the_trained_statistics(checkpoints):
    dice = checkpoints["din_dice"][0]
    state = dice["states"][0]
    control, value, spread = plots.draw_activation(checkpoints["din"][0], dice).panels
    mean = state["mlp.layers.1.standardize.running_mean"].numpy()
    assert spread.marks[0].x == mean.tolist()
    middle = control.marks[2]
    channel = np.argsort(mean)[int(0.5 * (len(mean) - 1))]
    at = np.interp(mean[channel], middle.x, middle.y)
    assert at == pytest.approx(0.5, abs=0.02)  # p(E[s]) = 1/2, DIN eq. 9
    assert value.marks[0].y[-1] == 6.0


def test_attention_weights_are_drawn_for_each_candidate_of_one_user(checkpoints, view):
    chart = plots.draw_attention(checkpoints["din_softmax"][0], view)
    (panel,) = chart.panels
    (heat_map,) = panel.marks
    rows = view.typical_user()
    assert len(heat_map.values) == len(panel.y_ticks) == len(set(view.test.item[rows].tolist()))
    assert all(
        len(row) == len(panel.x_ticks) == int(view.test.history_end[rows[0]]) for row in heat_map.values
    )
    assert all(sum(row) == pytest.approx(1, abs=1e-4) for row in heat_map.values)


def test_paths_of_all_targets_start_at_the_same_point(checkpoints, view):
    path, attention = plots.draw_evolution(checkpoints["dien"][0], view).panels
    starts = {(round(line.x[0], 5), round(line.y[0], 5)) for line in path.marks}
    assert len(starts) == 1
    assert all(len(line.x) == len(attention.x_ticks) + 1 for line in path.marks)


def test_items_are_drawn_by_category_and_predicted_ctr(checkpoints, view):
    chart = plots.draw_embedding(checkpoints["din_softmax"][0], view)
    marks = chart.panels[0].marks
    assert {mark.name for mark in marks} == {"C1", "C2", "C3", "C4"}
    ctr = [value for mark in marks for value in mark.color_values]
    assert len(ctr) <= ITEMS and all(0 < value < 1 for value in ctr)
    again = plots.draw_embedding(checkpoints["din_softmax"][0], view)
    assert again.panels[0].marks[0].x == marks[0].x


def test_explanation_of_a_test_sample_has_its_prediction(checkpoints, view):
    checkpoint = checkpoints["din_softmax"][0]
    scores = predict_experiment(checkpoint, RUN, DATA)
    row = int(np.flatnonzero(view.test.history_end.numpy() > 3)[0])
    user, item = view.user_ids["id"][scores["user"][row] - 1], ITEM_IDS["id"][scores["item"][row] - 1]
    explanation = explain(checkpoint, view, user, item)
    assert explanation.is_test_sample
    assert explanation.probability == pytest.approx(scores["seed_1"][row], rel=1e-5)
    effects = explanation.behaviors["effect"].abs().tolist()
    assert effects == sorted(effects, reverse=True)
    assert explanation.behaviors["weight"].sum() == pytest.approx(1, abs=1e-4)
    text = explanation.text(2)
    assert f"predicted CTR {explanation.probability:.2%} for user {user} and {item} · " in text
    assert f"and {len(effects) - 2} more behaviours" in text
    assert [len(panel.marks[0].lengths) for panel in explanation.chart(3).panels] == [3, 3]


def test_other_pairs_are_explained_with_the_whole_log(checkpoints, view):
    user = int(np.argmax(np.diff(DATA.log.offsets)))
    tested = set(view.test.item[view.test.user == user].tolist())
    item = next(code for code in range(1, ITEMS) if code not in tested)
    explanation = explain(checkpoints["base"][0], view, f"U{user}", f"I{item}")
    assert not explanation.is_test_sample
    assert len(explanation.behaviors) == np.diff(DATA.log.offsets)[user]
    assert "weight" not in explanation.behaviors


def test_unknown_user_or_item_raises(checkpoints, view):
    with pytest.raises(InputError, match=r"user: 'U99' is not one of the 60 users \(U1, U2, U3"):
        explain(checkpoints["base"][0], view, "U99", "I1")
    with pytest.raises(InputError, match="candidate: 'x' is not one of the 40 items"):
        explain(checkpoints["base"][0], view, "U1", "x")


def test_related_behaviours_follow_the_paths_of_categories():
    from deep_interest.simulation.config import SimulationConfig
    from deep_interest.simulation.relevance import is_related
    from deep_interest.simulation.world import make_items, make_world

    config = SimulationConfig(users=10, items=60, categories=12, themes=3, shops=12)
    world, items = make_world(config), make_items(config).set_index("item")["category"]
    index = {category: number for number, category in enumerate(world.category_id)}
    done, shown = np.meshgrid(items.index.to_numpy(), items.index.to_numpy())
    explanation = is_related(world, done.ravel(), shown.ravel())
    for j, a, related in zip(done.ravel(), shown.ravel(), explanation, strict=True):
        own, wanted = index[items[j]], index[items[a]]
        expected = own == wanted or (
            own == wanted - 1 and own // 4 == wanted // 4
        )  # twelve categories, three paths of four
        assert related == expected

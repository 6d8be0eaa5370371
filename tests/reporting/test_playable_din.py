"""The DIN of the page: an evaluation of the exported numbers alone has the predictions of the trained model."""

import base64
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from support.training import ITEMS, small_data, with_tags

from deep_interest.logs.schema import Field
from deep_interest.reporting.dataset_view import DatasetView
from deep_interest.reporting.playable_din import MAX_ITEMS, playable_din, playable_html
from deep_interest.serving.scorer import Scorer
from deep_interest.training.parameters import Recipe, RowOptions, RunParameters
from deep_interest.training.runs import Experiment, restore, train_experiment

OPTIONS = {
    "paper": {},
    "softmax and difference": {"normalize": "softmax", "difference": True},
    "Dice": {"activation": "dice", "attention_activation": "dice"},
    "batch normalisation": {"activation": "relu", "attention_activation": "sigmoid", "batch_norm": True},
}


def view_of(data):
    names = [f"I{i}" for i in range(1, ITEMS + 1)]
    category = [f"C{1 + i % 4}" for i in range(1, ITEMS + 1)]
    users = pd.DataFrame({"id": [f"U{i}" for i in range(1, 61)]})
    return DatasetView(
        data, users, pd.DataFrame({"id": names}), pd.DataFrame({"item": names, "category": category})
    )


def with_context(data):
    """The data with a profile field and a context field."""
    features = replace(
        data.features, schema=data.features.schema.model_copy(update={
            "profile": (Field(name="gender", size=3),), "context": (Field(name="hour", size=5),),
        }), users={"gender": np.arange(61, dtype=np.int32) % 3},
    )  # fmt: skip
    samples = data.samples.assign(hour=np.arange(len(data.samples), dtype=np.int32) % 5)
    return replace(data, features=features, samples=samples)


def train(data, folder, model="din", **options):
    recipe = Recipe(
        training={"epochs": 2, "batch_size": 64, "learning_rate": 0.03},
        model={"embedding_dim": 4, "embedding_std": 0.5, "hidden": (8, 6), "attention_hidden": (8, 5)},
    )
    run = RunParameters(workspace=str(folder), threads=1, processes=1)
    return train_experiment(Experiment("small", model, RowOptions(options), recipe, (1,), run), data)[0]


def evaluate(din, history, candidate):
    """DIN eq. 3 in NumPy, from the exported numbers alone: the CTR and the weights."""
    numbers = np.frombuffer(base64.b64decode(din["parameters"]), "<f4").astype(float)
    cursor = 0

    def take(*shape):
        nonlocal cursor
        cursor += int(np.prod(shape))
        return numbers[cursor - int(np.prod(shape)) : cursor].reshape(shape)

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    def read(layers):
        count = {"prelu": 1, "dice": 3}
        return [
            (layer["activation"], take(layer["outputs"], layer["inputs"]),
             [take(layer["outputs"]) for _ in range(1 + count.get(layer["activation"], 0))])
            for layer in layers
        ]  # fmt: skip

    def apply(layers, x):
        for activation, weight, (bias, *parameters) in layers:
            x = weight @ x + bias
            if activation == "prelu":
                x = np.where(x > 0, x, parameters[0] * x)
            elif activation == "dice":
                p = sigmoid((x - parameters[0]) / parameters[1])
                x = p * x + (1 - p) * parameters[2] * x
            else:
                x = {"relu": lambda x: np.maximum(x, 0), "sigmoid": sigmoid, "linear": lambda x: x}[
                    activation
                ](x)
        return x

    items, others = take(len(din["items"]), din["width"]), take(din["others"])
    attention, mlp = read(din["attention"]), read(din["mlp"])
    assert cursor == len(numbers)
    target = items[candidate][din["behavior"]]
    behaviors = [items[item][din["behavior"]] for item in history]
    weights = np.array([
        apply(attention, np.concatenate([e, target, e * target, *([e - target] if din["difference"] else [])]))[0] for e in behaviors
    ])  # fmt: skip
    if din["normalize"] == "softmax" and history:
        weights = np.exp(weights / np.sqrt(len(target)))
        weights /= weights.sum()
    interest = sum((w * e for w, e in zip(weights, behaviors, strict=True)), np.zeros(len(target)))
    return float(sigmoid(apply(mlp, np.concatenate([interest, items[candidate], others]))[0])), weights


def scores(checkpoint, data, view, din, history, candidate):
    """The prediction of the trained model for items of the page, with profile and context of the user's sample."""
    model = restore(checkpoint, 1)
    batch = view.test.batch(torch.from_numpy(view.typical_user()[:1]))
    scorer = Scorer(model, value_sets=view.test.store.value_sets)

    def codes(items):
        numbers = [int(din["items"][item].split(" ")[0][1:]) for item in items]
        return {
            field.name: torch.from_numpy(data.features.items[field.name][numbers])
            for field in model.schema.item
        }

    return float(scorer(codes(history), codes([candidate]), profile=batch.profile, context=batch.context)[0])


@pytest.mark.parametrize("kind", [*OPTIONS, "profile, context and multi-hot fields"])
def test_exported_numbers_give_the_predictions_of_the_model(kind, tmp_path):
    data = small_data() if kind in OPTIONS else with_tags(with_context(small_data()))
    checkpoint, view = train(data, tmp_path, **OPTIONS.get(kind, {})), view_of(data)
    din = playable_din(checkpoint, view)
    assert len(din["items"]) == min(ITEMS, MAX_ITEMS)
    rng = np.random.default_rng(0)
    predicted = []
    for length in (0, 1, 5, 20):
        history, candidate = (
            rng.integers(0, len(din["items"]), length).tolist(),
            int(rng.integers(len(din["items"]))),
        )
        value, _ = evaluate(din, history, candidate)
        assert value == pytest.approx(scores(checkpoint, data, view, din, history, candidate), abs=1e-5)
        predicted.append(value)
    assert max(predicted) - min(predicted) > 0.01


def test_page_starts_with_a_history_and_a_candidate_of_a_test_user(tmp_path):
    data = small_data()
    view = view_of(data)
    din = playable_din(train(data, tmp_path), view)
    row = view.typical_user()[0]
    user, end = int(view.test.user[row]), int(view.test.history_end[row])
    clicked = data.log.history(user, end, max_len=10)["item_id"]
    assert [din["items"][item].split(" ")[0] for item in din["history"]] == [f"I{code}" for code in clicked]
    assert din["items"][din["candidate"]].startswith(f"I{int(view.test.item[row])} ")
    assert din["user"] == f"U{user}"
    assert "may be negative" in playable_html(din)
    assert "add up to 1." in playable_html(din | {"normalize": "softmax"})


@pytest.mark.parametrize(("model", "options"), [("din", {"positions": 4}), ("base", {})])
def test_models_that_the_page_cannot_compute_are_omitted(model, options, tmp_path):
    data = small_data()
    assert playable_din(train(data, tmp_path, model, **options), view_of(data)) == {}


def test_models_that_are_too_large_for_a_page_are_omitted(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("deep_interest.reporting.playable_din.MAX_PARAMETERS", 100)
    data = small_data()
    with caplog.at_level("INFO"):
        assert playable_din(train(data, tmp_path), view_of(data)) == {}
    assert "the report omits the playable DIN" in caplog.text

"""Prediction by the source's ids: three items, two users, one context feature, and a model without training."""

import numpy as np
import pandas as pd
import pytest
import torch

from deep_interest.errors import InputError
from deep_interest.evaluation.version_calibration import Calibration
from deep_interest.logs.encoded_log import encode_log
from deep_interest.logs.encoding import behavior_log, code_column, encode_features
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.tables import CanonicalTables
from deep_interest.logs.vocabulary import FieldVocabularies, Vocabulary
from deep_interest.models.registry import build_model, model_config
from deep_interest.serving.encoder import Encoder
from deep_interest.serving.predictor import Predictor
from deep_interest.training.data import FeatureStore

COMMON = {"embedding_dim": 4, "embedding_std": 1.0}
CONTEXT = {"hour": 9}


def make(*, context=("hour",), max_len=10, multi_hot=None, standardised=()):
    """A predictor of a shop with the items 10, 11 and 12 and the users ``ann`` (10, 11, 12) and ``bob`` (12)."""
    tables = CanonicalTables(
        pd.DataFrame({"user": ["ann"] * 3 + ["bob"], "item": [10, 11, 12, 12], "time": [1, 2, 3, 1]}),
        pd.DataFrame({"item": [10, 11, 12], "category": ["a", "b", "b"]}),
    )
    columns = FeatureColumns(context=context, multi_hot=multi_hot or {}, standardised=standardised)
    users, items = Vocabulary.fit(tables.behaviors["user"]), Vocabulary.fit(tables.items["item"])
    log = encode_log(tables, users=users, items=items)
    vocabularies = FieldVocabularies()
    values = pd.Series(["x|y", "z"]) if multi_hot else pd.Series([9, 10])
    coded = {name: code_column(vocabularies, name, values, columns) for name in context}
    features = encode_features(tables, log, columns, context=coded, vocabularies=vocabularies)
    torch.manual_seed(0)
    model = build_model("din", model_config("din", {}, common=COMMON), features.schema)
    store = FeatureStore.build(behavior_log(log, features), features, torch.device("cpu"))
    frozen = FieldVocabularies(vocabularies.fields, frozen=True)
    return Predictor("shop.din", model, store, Encoder(users, items, frozen, columns), max_len=max_len)


def test_each_item_has_a_probability_in_the_order_of_the_call():
    model = make()
    ctr = model.predict("ann", [12, 10], CONTEXT)
    assert ctr.index.tolist() == [12, 10]
    assert ctr.dtype == np.float32
    assert ((ctr > 0) & (ctr < 1)).all()
    assert ctr[10] == pytest.approx(model.predict("ann", [10], CONTEXT)[10], abs=1e-7)
    assert model.predict("bob", [10], CONTEXT)[10] != ctr[10]


def test_a_calibrated_version_predicts_calibrated_probabilities():
    model = make()
    plain = model.predict("ann", [10, 11, 12], CONTEXT)
    model.calibration = Calibration(0.25)
    odds = plain.astype(float) / (1 - plain.astype(float)) / 4
    np.testing.assert_allclose(model.predict("ann", [10, 11, 12], CONTEXT), odds / (1 + odds), rtol=1e-9)


def test_the_history_is_the_log_unless_one_is_passed():
    model = make()
    log = model.predict("ann", [10], CONTEXT)[10]
    assert model.predict("ann", [10], CONTEXT, history=[10, 11, 12])[10] == log
    assert model.predict(None, [10], CONTEXT, history=[10, 11, 12])[10] == log
    assert model.predict("ann", [10], CONTEXT, history=[10])[10] != log
    short = make(max_len=1).predict("ann", [10], CONTEXT)[10]
    assert short == model.predict("ann", [10], CONTEXT, history=[12])[10]  # the newest behaviour


def test_unknown_users_items_and_values_are_encoded_as_unknown():
    model = make()
    nobody = model.predict(None, [10, 99, 98], CONTEXT)
    assert model.predict("eve", [10, 99, 98], CONTEXT).tolist() == nobody.tolist()
    assert nobody[99] == nobody[98] != nobody[10]
    assert (
        model.predict("ann", [10], {"hour": 23})[10]
        == model.predict("ann", [10], {"hour": 22})[10]
        != nobody[10]
    )
    assert (
        model.predict("ann", [10], CONTEXT, history=[77])[10]
        != model.predict("ann", [10], CONTEXT, history=[])[10]
    )


def test_context_is_one_value_or_one_per_item():
    model = make()
    both = model.predict("ann", [10, 11], {"hour": [9, 10]})
    assert both[10] == pytest.approx(model.predict("ann", [10], {"hour": 9})[10], abs=1e-7)
    assert both[11] == pytest.approx(model.predict("ann", [11], {"hour": 10})[11], abs=1e-7)
    assert make(context=()).predict("ann", [10]).between(0, 1).all()


def test_a_multi_hot_context_is_a_string_of_values():
    model = make(multi_hot={"hour": {"separator": "|"}})
    one, other = (model.predict("ann", [10], {"hour": value})[10] for value in ("x|y", "z"))
    assert one != other
    assert model.predict("ann", [10], {"hour": "y|x|unknown"})[10] == pytest.approx(one, abs=1e-7)


def test_a_standardised_context_is_a_number():
    model = make(standardised=("hour",))  # mean 9.5, standard deviation 0.5
    ctr = {hour: model.predict("ann", [10], {"hour": hour})[10] for hour in (9, 9.5, 10, 14, 99, None)}
    assert len(set(ctr.values())) == 5  # 14 and 99 are both more than 8 standard deviations from the mean
    assert ctr[14] == ctr[99]
    both = model.predict("ann", [10, 11], {"hour": [9, None]})
    assert both[10] == pytest.approx(ctr[9], abs=1e-7)
    with pytest.raises(InputError, match=r"context: hour: found 'noon'; expected numbers such as 1\.5"):
        model.predict("ann", [10], {"hour": "noon"})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ann", [], CONTEXT), "items: found none; pass the ids of the candidate items"),
        (("ann", ["10"], CONTEXT), "items: found '10'; expected numbers such as 10, as in the source"),
        ((7, [10], CONTEXT), "user: found 7; expected strings such as 'ann', as in the source"),
        (("ann", [10], {"hour": "9"}), "context: hour: found '9'; expected numbers such as 9, as in the source"),
        (("ann", [10]), "context: shop.din needs hour; found none"),
        (("ann", [10], {"hours": 9}), "context: shop.din needs hour; found hours; hours is perhaps hour"),
        (("ann", [10], {"hour": 9, "day": 1}), "context: shop.din needs hour; found hour, day"),
        (("ann", [10, 11, 12], {"hour": [9, 9]}), "context: hour has 2 values; pass one, or one per item (3)"),
    ],
)  # fmt: skip
def test_an_invalid_call_is_one_message(arguments, message):
    with pytest.raises(InputError) as error:
        make().predict(*arguments)
    assert str(error.value) == message


def test_a_model_without_context_refuses_one():
    with pytest.raises(
        InputError, match=r"context: shop\.din has no context features; leave it out; found hour"
    ):
        make(context=()).predict("ann", [10], CONTEXT)

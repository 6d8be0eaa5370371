"""What tables of reduced precision cost, worked out by hand, and the gate's check."""

import numpy as np
import pytest
import torch

from deep_interest.errors import InputError
from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.models.config import Precision
from deep_interest.models.registry import build_model, model_config
from deep_interest.retraining.gate import judge
from deep_interest.retraining.parameters import GateParameters
from deep_interest.retraining.precision_loss import check_can_reduce, precision_loss, with_precision_loss
from deep_interest.retraining.summary import precision_sentence

INT8 = Precision(tables="int8")
FIELDS = (Field(name="item_id", size=10),)
SCHEMA = FeatureSchema(item=FIELDS, behavior=FIELDS)
USERS, LABELS = [1, 1, 1, 1, 2, 2, 3, 3, 3], [1, 1, 0, 0, 1, 0, 1, 0, 0]
WHOLE = [0.9, 0.8, 0.2, 0.1, 0.9, 0.1, 0.9, 0.2, 0.1]  # every user in order
PACKED = [0.9, 0.2, 0.8, 0.1, 0.9, 0.1, 0.9, 0.2, 0.1]  # user 1 has one of four pairs out of order


def make(key="base", **options):
    torch.manual_seed(0)
    config = model_config(key, options, common={"embedding_dim": 18, "embedding_std": 1.0, "hidden": (4,)})
    return build_model(key, config, SCHEMA)


def by_precision(model):
    """Scores that a user's order depends on."""
    return WHOLE if model.embeddings.tables["item_id"].weight is not None else PACKED


def verdict_with(loss, **conditions):
    gate = GateParameters(minimum_users=2, calibration=(0, 9), **conditions)
    verdict = judge(USERS, LABELS, WHOLE, None, gate, popularity=np.full(len(USERS), 0.5))
    assert verdict.promoted
    return with_precision_loss(verdict, loss, gate)


@pytest.mark.parametrize(("precision", "bytes_"), [("int8", 22), ("float16", 36), ("bfloat16", 36)])
def test_the_loss_is_that_of_the_users_whose_order_changes(precision, bytes_):
    scores, loss = precision_loss(
        USERS, LABELS, by_precision, make, Precision(tables=precision), GateParameters()
    )
    assert scores.tolist() == PACKED
    assert loss.gauc_float32 == 1.0
    # AUC 3/4 of user 1, 1 of the others; weights are impressions: 4, 2 and 3 of 9
    assert loss.loss.difference == pytest.approx(4 / 9 * 1 / 4)
    assert loss.loss.low < loss.loss.difference < loss.loss.high
    assert (loss.megabytes, loss.megabytes_float32) == (10 * bytes_ / 1e6, 10 * 72 / 1e6)


def test_nothing_is_compared_in_float32():
    scores, loss = precision_loss(USERS, LABELS, by_precision, make, Precision(), GateParameters())
    assert (scores.tolist(), loss) == (WHOLE, None)
    assert verdict_with(None).precision is None


def test_a_version_whose_tables_cost_too_much_is_refused():
    _, loss = precision_loss(USERS, LABELS, by_precision, make, INT8, GateParameters())
    verdict = verdict_with(loss)
    assert not verdict.promoted
    assert [(check.name, check.expected) for check in verdict.checks if not check.passed] == [
        ("GAUC loss of int8 tables, upper end", "at most 0.001")
    ]
    assert verdict.checks[-1].found == loss.loss.high
    assert verdict_with(loss, quantisation_loss=loss.loss.high).promoted
    assert verdict.as_dict()["precision"]["loss"]["difference"] == loss.loss.difference


def test_a_loss_that_cannot_be_measured_is_refused():
    users = [1] * len(LABELS)
    _, loss = precision_loss(users, LABELS, by_precision, make, INT8, GateParameters())
    assert loss.loss is None
    assert not verdict_with(loss).promoted
    assert "loss in GAUC unknown" in precision_sentence(verdict_with(loss).as_dict()["precision"])


def test_equal_scores_lose_nothing():
    _, loss = precision_loss(USERS, LABELS, lambda model: WHOLE, make, INT8, GateParameters())
    assert verdict_with(loss, quantisation_loss=0.0).promoted
    sentence = precision_sentence(verdict_with(loss).as_dict()["precision"])
    assert sentence == (
        "Precision: int8 tables, tables of 0.00022 MB instead of 0.00072 MB, loss in GAUC +0.00000 (+0.00000 to +0.00000)"
    )


def test_a_model_without_tables_that_shrink_is_refused_before_training():
    with pytest.raises(InputError, match="LR has no embedding tables that become smaller in int8"):
        check_can_reduce(lambda: make("lr"), INT8)
    check_can_reduce(lambda: make("lr"), Precision())
    check_can_reduce(lambda: make("base"), INT8)


def test_bfloat16_attention_needs_an_activation_unit_of_prelu():
    reduced = Precision(attention="bfloat16")
    check_can_reduce(lambda: make("din"), reduced)
    for others in (lambda: make("base"), lambda: make("din", attention_activation="dice")):
        with pytest.raises(
            InputError, match="has no activation unit with two hidden layers of PReLU or ReLU"
        ):
            check_can_reduce(others, reduced)


def test_both_reductions_are_one_check():
    reduced = Precision(tables="int8", attention="bfloat16")
    _, loss = precision_loss(USERS, LABELS, by_precision, lambda: make("din"), reduced, GateParameters())
    assert (loss.tables, loss.attention) == ("int8", "bfloat16")
    assert verdict_with(loss).checks[-1].name == "GAUC loss of int8 tables and bfloat16 attention, upper end"

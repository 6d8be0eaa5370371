import pandas as pd
import pytest

from deep_interest.errors import InputError
from deep_interest.evaluation.evidence import EvaluationParameters
from deep_interest.grid import Table
from deep_interest.pipelines.report.nodes import make_compare

SAMPLES = pd.DataFrame(
    {
        "user": [1, 1, 2, 2, 1],
        "item": [5, 6, 7, 8, 9],
        "label": [1, 0, 1, 0, 1],
        "split": ["test"] * 4 + ["train"],
    }
)
CURVES = pd.DataFrame(
    {"seed": [3], "epoch": [1.0], "samples": [10], "seconds": [2.0], "validation_gauc": [0.7]}
)


def predictions(items=(5, 6, 7, 8)):
    return pd.DataFrame({"user": [1, 1, 2, 2], "item": items, "seed_3": [0.9, 0.1, 0.2, 0.4]})


def compare(base_predictions):
    node = make_compare(Table("one row", ("base",)))
    return node(SAMPLES, EvaluationParameters(), base_predictions=base_predictions, base_curves=CURVES)


def test_the_table_is_made_of_predictions_and_curves():
    row = compare(predictions()).iloc[0]
    assert (row["model"], row["gauc"], row["seeds"]) == ("base", 0.5, 1)
    assert (row["validation_gauc"], row["samples_per_second"]) == (0.7, 5)


@pytest.mark.parametrize("wrong", [predictions((5, 6, 7, 9)), predictions().iloc[:3]])
def test_predictions_of_other_samples_are_refused(wrong):
    with pytest.raises(
        InputError, match=r"predictions of base: found . rows of other samples than the present 4"
    ):
        compare(wrong)

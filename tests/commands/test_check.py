import pandas as pd
import pytest

from deep_interest.commands.check import other_block_lines, validation_set_lines
from deep_interest.commands.check import test_set_lines as lines_of
from deep_interest.evaluation.evidence import EvaluationParameters

# Users 1 and 2 have both classes, with 2 + 1 positives; user 3 has one class.
TEST = pd.DataFrame({"user": [1, 1, 1, 2, 2, 3], "label": [1, 1, 0, 1, 0, 1]})


def test_the_check_counts_what_gauc_rests_on():
    lines = lines_of(TEST, EvaluationParameters(minimum_users=2, minimum_positives=3))
    assert lines == ["", "test set: 2 users with both classes, 3 positive samples of theirs"]


def test_the_check_warns_that_a_small_test_set_gets_no_interval():
    lines = lines_of(TEST, EvaluationParameters(minimum_users=2, minimum_positives=4))
    assert lines[-1] == (
        "warning: the test set has only 3 positive samples of such users (at least 4 are needed: "
        "evaluation.minimum_positives), so the table will give no interval, star or verdict"
    )


def test_the_check_warns_about_a_small_validation_set_if_there_is_one():
    (line,) = validation_set_lines(TEST, EvaluationParameters(minimum_users=3))
    assert line.startswith("warning: the validation set has only 2 users with both classes")
    assert validation_set_lines(TEST, EvaluationParameters(minimum_users=2)) == []
    assert validation_set_lines(TEST.iloc[:0], EvaluationParameters()) == []


SOURCE = {"behaviors": {"files": "x.csv"}}


@pytest.mark.parametrize(
    ("name", "block", "problem"),
    [
        ("half", {"title": "Half"}, "source is missing"),
        ("half", None, "source is missing"),
        ("typo", {"title": "T", "protocol": {"name": "by_dy"}, "source": SOURCE}, "protocol.name"),
        ("typo", {"protocol": {"name": "by_day"}, "sauce": 1, "source": SOURCE}, "title and 1 more"),
        ("a b", {"source": SOURCE}, "datasets: 'a b' is not a valid dataset name"),
        ("m", {"source": SOURCE, "models": ["dinn"]}, "datasets.m.models: dinn is unknown"),
    ],
)
def test_problems_of_other_blocks_are_one_line(name, block, problem):
    valid = {"title": "T", "protocol": {"name": "next_item"}}
    blocks = {"amazon_toys": valid, name: block, "own": valid | {"source": SOURCE}}
    (line,) = other_block_lines(blocks)
    assert line.startswith("warning: blocks of other datasets have problems;")
    assert line.endswith(f": {name} ({problem})")


def test_valid_blocks_of_other_datasets_give_no_line():
    assert other_block_lines({"amazon_toys": {"title": "T", "protocol": {"name": "next_item"}}}) == []

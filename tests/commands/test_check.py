import pandas as pd

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

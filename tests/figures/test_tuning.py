import pandas as pd

from deep_interest.figures.tuning import tuning_chart

TRIALS = pd.DataFrame(
    {
        "trial": [0, 1, 2, 3],
        "state": ["complete", "pruned", "complete", "fail"],
        "validation_gauc": [0.6, 0.5, 0.7, float("nan")],
        "training.mba": [0.1, 0.2, 5.0, 1.0],
        "training.optimizer": ["adam", "sgd", "sgd", "adam"],
    }
)
TUNED_SUFFIX = {
    "values": {"training.mba": 5.0, "training.optimizer": "sgd"},
    "ranges": {
        "training.mba": {"low": 0.01, "high": 10, "log": True},
        "training.optimizer": {"choices": ["adam", "sgd"]},
    },
    "validation_gauc": 0.7,
    "importance": {"training.mba": 0.8, "training.optimizer": 0.2},
}


def test_history_options_and_importance_are_panels():
    history, mba, optimizer, importance = tuning_chart(TRIALS, TUNED_SUFFIX, model="din_mba").panels
    complete, pruned, best = history.marks
    assert (complete.x, complete.y, pruned.x) == ([0, 2], [0.6, 0.7], [1])
    assert best.y == [0.6, 0.7]
    assert (mba.title, mba.x_log, mba.marks[0].x) == ("λ (MBA)", True, 5.0)
    assert optimizer.x_ticks == ["adam", "sgd"]
    assert optimizer.marks[1].x == [0, 1]
    assert importance.y_ticks == ["optimizer", "λ (MBA)"]


def test_search_of_one_option_has_no_importance():
    panels = tuning_chart(TRIALS, TUNED_SUFFIX | {"importance": {}}, model="din_mba").panels
    assert [panel.title for panel in panels] == ["By trial", "λ (MBA)", "optimizer"]

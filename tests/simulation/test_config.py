"""Validation of simulation parameters."""

import pytest
from pydantic import ValidationError

from deep_interest.simulation.config import SimulationConfig


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"items": 50, "categories": 60}, r"items is 50, expected at least categories \(60\)"),
        ({"categories": 8, "themes": 9}, r"categories is 8, expected at least themes \(9\)"),
        ({"shops": 10, "categories": 20, "themes": 2}, r"shops is 10, expected at least categories \(20\)"),
        (
            {"interests_per_user": (3, 2)},
            r"interests_per_user is \(3, 2\), expected the minimum and the maximum",
        ),
        ({"interests": {"stage_share": 0.9, "theme_share": 0.2}}, r"stage_share \+ theme_share is 1.1"),
        ({"candidates": {"stage": 0.9}}, r"the candidate shares add up to 1.63, expected at most 1"),
        ({"block_users": 10**12}, r"block_users is 1000000000000: .* reduce block_users"),
        ({"users": 0}, r"users\s+Input should be greater than or equal to 1"),
        ({"clicks": {"target_ctr": 1.0}}, r"clicks.target_ctr\s+Input should be less than 1"),
        ({"user": 5}, r"user\s+Extra inputs are not permitted"),
        ({"clicks": {"half_life": 5}}, r"clicks.half_life\s+Extra inputs are not permitted"),
    ],
)
def test_an_invalid_or_unknown_parameter_is_an_error_with_its_name(parameters, message):
    with pytest.raises(ValidationError, match=message):
        SimulationConfig.model_validate(parameters)


def test_the_log_starts_behavior_days_before_the_first_impressions():
    config = SimulationConfig.model_validate({"first_impression_day": "1970-01-31", "behavior_days": 20})

    assert config.origin == 10 * 86_400
    assert config.days == 35


@pytest.mark.parametrize(("users", "blocks"), [(1, 1), (100, 1), (101, 2), (200, 2)])
def test_the_last_block_of_users_may_be_smaller(users, blocks):
    assert SimulationConfig(users=users, block_users=100).blocks == blocks

"""Costs by hand, costs that grow with every count, and what a plan advises."""

import json
from dataclasses import replace

import pytest
from support.planning import COUNTS, MACHINE, MEASURED, workload

from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.models.registry import MODELS
from deep_interest.planning.arrays import features_bytes, log_bytes, model_size, schema_of
from deep_interest.planning.counts import Counts, samples_of
from deep_interest.planning.measurements import measurements
from deep_interest.planning.page import duration, plan_lines, size
from deep_interest.planning.plan import make_plan, ranks_needed
from deep_interest.planning.stages import Costs, Machine
from deep_interest.retraining.parameters import RetrainingParameters
from deep_interest.training.parameters import TrainingOptions

LOG = Counts(users=1_000, items=2_000, behaviors=50_000, samples=98_000, values={"category": 50}, days=10)


def stages(planned=None, machine=MACHINE):
    return {
        (stage.name, stage.engine): stage
        for stage in Costs(planned or workload(), machine, MEASURED).stages()
    }


def test_the_costs_of_ingest_by_hand():
    memory, disk = (stages()["ingest", way] for way in ("in memory", "on disk"))
    rows = 200 + 380  # behaviours, and impressions of a dataset that can be retrained
    assert (memory.seconds, memory.memory, memory.disk) == pytest.approx(
        (1 + rows * 1e-6, 1e8 + 200 * rows, 10 * rows)
    )
    # measured on two cores, planned on four
    assert (disk.seconds, disk.memory, disk.disk) == pytest.approx(
        (2 + rows * 3e-6 / 2, 2e9 + rows, 30 * rows)
    )


def test_the_costs_of_the_samples_by_hand():
    found, schema = stages(), schema_of(workload().columns, COUNTS)
    arrays = log_bytes(schema, COUNTS) + features_bytes(schema, COUNTS)
    numpy, duckdb = found["samples", "NumPy"], found["samples", "DuckDB"]
    assert (numpy.seconds, numpy.memory) == pytest.approx((580e-6, 1e8 + 58_000))
    assert numpy.disk == pytest.approx(arrays + 5 * 380)
    assert duckdb.seconds == pytest.approx(1 + 580 * 2e-6 * 2 / 4)  # measured on two cores, planned on four
    assert duckdb.memory == pytest.approx(1e9 + 10 * 580)
    assert duckdb.disk == pytest.approx(arrays + 5 * 380 + 30 * 580)


def test_the_costs_of_training_by_hand():
    planned = workload(columns=FeatureColumns(item=("item_id", "category")))
    weights = 4 * sum_of_parameters(planned)
    rows = 51 + 8  # items, categories
    schema = schema_of(planned.columns, COUNTS)
    arrays = log_bytes(schema, COUNTS) + features_bytes(schema, COUNTS)
    width, length = 2 * 16, 20  # two fields; 200 behaviours of 10 users
    batch = 20 * 100 * length * width
    fit = 5e8 + 5 * weights + 9 * rows + (16 + 22 + 8) * 380 + batch  # parameters, best, two moments, result
    stage = stages(planned)["train din", "2 process(es)"]
    assert stage.memory == pytest.approx(arrays + 22 * 380 + 2 * fit + 2 * weights)
    per_sample = 1e-6 + 1e-8 * width + 1e-7 * length + 1e-9 * width * length
    assert stage.seconds == pytest.approx(
        380 * 2 * 2 * per_sample / 2
    )  # two epochs, two seeds, two processes
    assert stage.disk == pytest.approx(2 * 2 * weights + 2 * 4 * weights)


def sum_of_parameters(planned):
    found = model_size(planned.model, planned.config, schema_of(planned.columns, planned.counts))
    return found.table_values + found.network_values


def test_sgd_has_no_moments():
    adam, sgd = (
        Costs(workload(options=TrainingOptions(optimizer=name)), MACHINE, MEASURED)
        for name in ("adam", "sgd")
    )
    assert adam.fit_memory() - sgd.fit_memory() == pytest.approx(8 * sum_of_parameters(workload()))


def test_a_night_trains_on_the_new_day_and_those_that_are_replayed():
    planned = workload(
        counts=LOG, retraining=RetrainingParameters(replay_days=4, warm_training={"epochs": 1})
    )
    per_sample = Costs(planned, MACHINE, MEASURED).speed.training_seconds(2 * 16 + 8, 50)
    stage = stages(planned)["retrain (warm_start)", "1 process"]
    assert stage.seconds == pytest.approx(98_000 * 5 / 10 * per_sample / 4 + 1 + 148_000e-6)


def test_a_log_that_cannot_be_retrained_has_no_nights():
    assert not [
        name for name, _ in stages(workload(retraining=None)) if name.startswith(("retrain", "score"))
    ]


@pytest.mark.parametrize("name", ["users", "items", "behaviors", "samples"])
@pytest.mark.parametrize("factor", [2, 1000])
def test_no_cost_falls_when_a_count_grows(name, factor):
    # More users with as many behaviours have shorter histories, which train faster: those grow with the users.
    larger = {name: factor * getattr(LOG, name)} | (
        {"behaviors": factor * LOG.behaviors} if name == "users" else {}
    )
    for before, after in zip(
        stages(workload(counts=LOG)).values(),
        stages(workload(counts=replace(LOG, **larger))).values(),
        strict=True,
    ):
        assert after.memory >= before.memory
        assert after.disk >= before.disk
        assert after.seconds >= before.seconds


def test_a_model_beyond_the_memory_is_sharded_over_as_few_machines_as_possible():
    counts = replace(LOG, items=1_000_000_000)
    costs = Costs(workload(counts=counts), MACHINE, MEASURED)
    ranks = ranks_needed(costs)
    assert ranks > 1
    assert costs.rank_memory(ranks) <= MACHINE.memory < costs.rank_memory(ranks - 1)
    plan = make_plan(workload(counts=counts), MACHINE, MEASURED)
    assert plan.ranks == ranks
    assert any("--env=cluster" in sentence for sentence in plan.advice)


def test_a_machine_smaller_than_a_process_fits_nothing():
    tiny = Machine(memory=10_000_000, cores=1)
    assert ranks_needed(Costs(workload(), tiny, MEASURED)) is None
    assert not any(stage.fits for stage in stages(machine=tiny).values())


@pytest.mark.parametrize(
    ("behaviors", "advised"), [(10_000_000, "NumPy"), (300_000_000, "DuckDB"), (10**10, "Spark")]
)
def test_the_engine_follows_from_the_memory(behaviors, advised):
    counts = replace(LOG, behaviors=behaviors, samples=2 * behaviors)
    plan = make_plan(workload(counts=counts), MACHINE, MEASURED)
    (sentence,) = [sentence for sentence in plan.advice if sentence.startswith("ingest and samples:")]
    assert f"use {advised} (" in sentence or f"use {advised} on a cluster" in sentence


def test_spark_pays_from_the_number_of_cores_at_which_it_is_faster():
    counts = replace(LOG, behaviors=100_000_000, samples=100_000_000)
    plan = make_plan(workload(counts=counts), MACHINE, MEASURED)
    # NumPy takes 200 s; Spark 10 s and 4e-6 · 2e8 · 2 / cores = 1600 / cores, at most 190 s from 9 cores on
    assert "Spark is faster than NumPy from about 9 cores on" in plan.advice


@pytest.mark.parametrize(
    ("protocol", "samples"),
    [
        ({"name": "next_item"}, 2 * (167_597 - 19_412)),  # amazon_toys has 296,370
        ({"name": "last_item"}, 2 * 19_412),
        ({"name": "rated"}, 167_597),
        ({"name": "by_day"}, 7),
    ],
)
def test_the_samples_of_each_protocol(protocol, samples):
    parameters = ProtocolParameters.model_validate(protocol)
    assert samples_of(parameters, users=19_412, behaviors=167_597, impressions=7) == samples


def test_counts_are_at_least_one():
    with pytest.raises(InputError, match="samples: found 0"):
        Counts(users=1, items=1, behaviors=1, samples=0)


def test_a_plan_as_json_has_plain_values():
    plan = make_plan(workload(counts=LOG), MACHINE, MEASURED)
    again = json.loads(json.dumps(plan.as_dict()))
    assert again == plan.as_dict()
    assert again["counts"] == {
        "users": 1000, "items": 2000, "behaviors": 50_000, "samples": 98_000, "values": {"category": 50}, "days": 10,
    }  # fmt: skip
    assert set(again["stages"][0]) == {"name", "engine", "memory", "disk", "seconds", "fits"}
    assert again["ranks"] == 1


def test_a_plan_as_lines_has_a_row_for_each_stage_and_every_assumption():
    plan = make_plan(workload(counts=LOG), MACHINE, MEASURED)
    lines = list(plan_lines(plan))
    assert lines[0] == "shop: 1,000 users, 2,000 items, 50,000 behaviours, 98,000 samples"
    for stage in plan.stages:
        assert any(line.startswith(stage.name) and stage.engine in line for line in lines)
    assert {f"- {sentence}" for sentence in (*plan.advice, *plan.assumptions)} <= set(lines)


def test_sizes_and_times_have_units():
    assert [size(of) for of in (12, 1_500, 2.5e9, 7.68e11)] == ["12 B", "1.5 kB", "2.5 GB", "768.0 GB"]
    assert [duration(of) for of in (1.04, 119, 150, 7_200, 10**6)] == ["1.0 s", "119.0 s", "2.5 min", "2.0 h", "11.6 d"]  # fmt: skip


def test_every_model_that_is_trained_has_a_measured_representative():
    measured = measurements()
    for key, spec in MODELS.items():
        if not spec.closed_form:
            chosen, speed = measured.speed_of(key)
            assert speed.training_seconds(64, 20) > 0
            assert MODELS[chosen].path == spec.path or MODELS[chosen].family == spec.family
    assert measured.speed_of("din_mba")[0] == "din"

"""``kedro run`` in the environments of the engines."""

import pandas as pd
import pytest
from support.project import copy_project, run

from deep_interest.datasets import SamplesFolder

pytestmark = pytest.mark.cluster
SIZES = "simulation.users=100,simulation.items=200,simulation.categories=20,simulation.themes=4,simulation.shops=20"


def make_samples(project, environment, *, sampling=None):
    chosen = f",datasets.simulated.protocol.sampling={sampling}" if sampling else ""
    return run(project, "--pipelines=samples.simulated", f"--params={SIZES}{chosen}", env=environment)


@pytest.mark.parametrize("environment", ["duckdb", "spark"])
def test_a_run_on_an_engine_writes_the_samples_of_the_default_environment(tmp_path, environment):
    project = copy_project(tmp_path)
    for name, sampling in ((environment, None), ("smoke", "hashed")):
        process = make_samples(project, name, sampling=sampling)
        assert process.returncode == 0, process.stdout
    made = SamplesFolder(
        filepath=str(project / f"data/{environment}/05_model_input/simulated/samples.parquet")
    ).load()
    expected = pd.read_parquet(project / "data/smoke/05_model_input/simulated/samples.parquet")
    order = ["user", "time", "history_end", "label", "item"]
    expected = expected.sort_values(order, ascending=[True, True, True, False, True], ignore_index=True)
    pd.testing.assert_frame_equal(made, expected)
    assert not list((project / f"data/{environment}").rglob(".*.part"))


def test_sequential_sampling_that_is_asked_for_is_an_error_on_an_engine(tmp_path):
    process = make_samples(copy_project(tmp_path), "duckdb", sampling="sequential")
    assert process.returncode != 0
    assert "protocol.sampling: found sequential" in process.stdout
    assert "Traceback" not in process.stdout

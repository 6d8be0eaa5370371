from contextlib import ExitStack

import pytest
from kedro.io import SharedMemoryDataCatalog

from deep_interest.errors import InputError
from deep_interest.hooks.retraining import RetrainingHooks
from deep_interest.pipeline_registry import register_pipelines


@pytest.mark.slow
def test_retraining_refuses_a_runner_whose_processes_share_no_memory():
    pipelines, catalog, hooks = register_pipelines(), SharedMemoryDataCatalog(), RetrainingHooks(ExitStack())
    with pytest.raises(
        InputError, match=r"--runner: ParallelRunner cannot run retrain pipelines.*leave --runner out"
    ):
        hooks.before_pipeline_run(pipelines["retrain.simulated.din"], catalog)
    hooks.before_pipeline_run(pipelines["simulated.lr"], catalog)

"""What nearly every command imports and reads, for the process that the commands of tests are forked from."""

from importlib import import_module
from pkgutil import walk_packages

import numba
from support.project import PROJECT

import deep_interest
from deep_interest.config import check_files

OUTSIDE = (
    "kedro.framework.cli", "kedro.runner", "kedro_telemetry.plugin", "kedro_airflow.plugin", "kedro_viz.launchers.cli.main",
    "kedro_viz.integrations.kedro.hooks", "kedro_viz.integrations.kedro.run_hooks", "kedro_datasets.json", "kedro_datasets.matplotlib",
    "kedro_datasets.pandas", "kedro_datasets.plotly", "kedro_datasets.yaml", "ibis.backends.duckdb", "plotly.express", "kedro_datasets.text", "pyarrow.dataset",
    "sympy", "rich.logging", "cffi",
)  # fmt: skip
OURS = ("analysis", "cli", "commands", "datasets", "hooks", "pipelines", "models", "settings")


for name in OUTSIDE:
    import_module(name)
for module in walk_packages(deep_interest.__path__, "deep_interest."):
    if module.name.split(".")[1] in OURS:
        import_module(module.name)
numba.njit(lambda x: x + 1)(1)  # the first compilation loads many modules
check_files(PROJECT / "conf", ("base", "smoke"))

"""What nearly every command imports and reads, for the process that the commands of tests are forked from.

multiprocessing ignores an import that fails, and with it all that follow.
"""

from importlib import import_module
from importlib.util import find_spec
from pkgutil import walk_packages

import numba
from support.project import PROJECT

import deep_interest
from deep_interest.config import check_files

OUTSIDE = (
    "kedro.framework.cli", "kedro.runner", "kedro_telemetry.plugin", "kedro_airflow.plugin", "kedro_viz.launchers.cli.main",
    "kedro_viz.integrations.kedro.hooks", "kedro_viz.integrations.kedro.run_hooks", "kedro_datasets.json", "kedro_datasets.matplotlib",
    "kedro_datasets.pandas", "kedro_datasets.plotly", "kedro_datasets.yaml", "plotly.express", "kedro_datasets.text", "pandera.pandas",
    "hypothesis", "pyarrow.dataset", "sympy", "rich.logging", "cffi",
)  # fmt: skip
OURS = (
    "analysis", "cli", "commands", "datasets", "export", "hooks", "pipelines", "models", "retraining", "service", "serving", "settings",
)  # fmt: skip


for name in OUTSIDE:
    import_module(name)
if find_spec("ibis"):  # only with the extra spark
    import_module("ibis.backends.duckdb")
for module in walk_packages(deep_interest.__path__, "deep_interest."):
    if module.name.split(".")[1] in OURS:
        import_module(module.name)
numba.njit(lambda x: x + 1)(1)  # the first compilation loads many modules
check_files(PROJECT / "conf", ("base", "smoke"))

"""A substitute for the modules of Airflow 3 that DAG files of this project import: it records tasks and their order."""

import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any


class Task:
    """A task of a bash command, as ``BashOperator``."""

    def __init__(self, *, task_id: str, bash_command: str, cwd: str, **options: Any) -> None:
        self.task_id, self.bash_command, self.cwd, self.options = task_id, bash_command, cwd, options
        self.upstream: set[str] = set()
        assert DAG.current is not None
        assert task_id not in DAG.current.tasks, f"two tasks are called {task_id}"
        DAG.current.tasks[task_id] = self

    def __rshift__(self, others: "Task | list[Task]") -> "Task | list[Task]":
        for other in others if isinstance(others, list) else [others]:
            other.upstream.add(self.task_id)
        return others

    def __rrshift__(self, others: "list[Task]") -> "Task":
        for other in others:
            self.upstream.add(other.task_id)
        return self


class DAG:
    """Tasks that are made within ``with DAG(…)``."""

    current: "DAG | None" = None
    found: "list[DAG]" = []  # noqa: RUF012

    def __init__(self, dag_id: str, **options: Any) -> None:
        self.dag_id, self.options = dag_id, options
        self.tasks: dict[str, Task] = {}
        DAG.found.append(self)

    def __enter__(self) -> "DAG":
        DAG.current = self
        return self

    def __exit__(self, *_: object) -> None:
        DAG.current = None

    @property
    def upstream(self) -> dict[str, set[str]]:
        """``{task: tasks before it}``."""
        return {name: task.upstream for name, task in self.tasks.items()}


@contextmanager
def _modules() -> Iterator[None]:
    sdk, bash = ModuleType("airflow.sdk"), ModuleType("airflow.providers.standard.operators.bash")
    sdk.DAG, bash.BashOperator = DAG, Task  # type: ignore[attr-defined]
    names = [
        "airflow", "airflow.providers", "airflow.providers.standard", "airflow.providers.standard.operators",
    ]  # fmt: skip
    modules = {name: ModuleType(name) for name in names} | {module.__name__: module for module in (sdk, bash)}
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def read_dag(file: Path) -> DAG:
    """Run a DAG file and return its only DAG."""
    DAG.found = []
    with _modules():
        runpy.run_path(str(file))
    (dag,) = DAG.found
    return dag

"""The notebook runs from its first notebook cell to its last."""

import os
import shutil

import nbformat
from nbclient import NotebookClient
from support.project import PROJECT, copy_project, environment


def test_the_notebook_runs(tmp_path, monkeypatch):
    project = copy_project(tmp_path / "project")
    shutil.copytree(PROJECT / "notebooks", project / "notebooks")
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(project / "src") + os.pathsep + os.environ.get("PYTHONPATH", ""))
    notebook = nbformat.read(project / "notebooks/tour.ipynb", as_version=4)
    NotebookClient(
        notebook, timeout=240, resources={"metadata": {"path": str(project / "notebooks")}}
    ).execute()
    printed = "".join(
        output.get("text", "")
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output["output_type"] == "stream"
    )
    assert "predicted CTR" in printed
    assert all(
        "outputs" not in cell or not cell["outputs"]
        for cell in nbformat.read(PROJECT / "notebooks/tour.ipynb", 4).cells
    )

"""The notebook runs from its first cell to its last, and its saved outputs are those of a model that has learnt something."""

import re
import shutil

import nbformat
import pytest
from nbclient import NotebookClient
from support.project import PROJECT, copy_project, environment


def printed(notebook):
    """Return the text of each code cell's outputs."""
    return [
        "".join(
            output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in cell.outputs
        )
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


@pytest.mark.nightly
def test_the_notebook_runs(tmp_path, monkeypatch):
    project = copy_project(tmp_path / "project")
    shutil.copytree(PROJECT / "notebooks", project / "notebooks")
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    notebook = nbformat.read(project / "notebooks/tour.ipynb", as_version=4)
    assert "\nENV = None" in notebook.cells[1].source
    notebook.cells[1].source = notebook.cells[1].source.replace("ENV = None", 'ENV = "smoke"')
    NotebookClient(
        notebook, timeout=240, resources={"metadata": {"path": str(project / "notebooks")}}
    ).execute()
    *_, explanation, _ = printed(notebook)
    assert "predicted CTR" in explanation
    assert (project / "data/smoke/08_reporting/simulated/din/results.csv").exists()


def test_the_saved_outputs_show_a_model_that_has_learnt():
    notebook = nbformat.read(PROJECT / "notebooks/tour.ipynb", as_version=4)
    outputs = printed(notebook)
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(outputs) + 1))
    assert not any(
        output.output_type == "error" for cell in notebook.cells for output in cell.get("outputs", [])
    )
    gauc = re.search(r" DIN +(0\.\d+)", outputs[2])
    assert float(gauc[1]) > 0.65
    assert "image/png" in notebook.cells[-2].outputs[0].data
    assert len((PROJECT / "notebooks/tour.ipynb").read_bytes()) < 200_000

"""The notebooks on experiments in a Jupyter kernel, as they stand; `make docs` runs all of them as plain Python."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tools.docs.blocks import differs_little

NOTEBOOKS = Path(__file__).parent.parent / "docs" / "notebooks"
CELL = re.compile(
    r"^```python\n(?P<code>.*?)^```$"
    r'(?:\s*<!--\{\{ output\((?:hide=r"(?P<hide>.*?)")?[^\n]*\n```text\n(?P<shown>.*?)\n```$)?',
    re.DOTALL | re.MULTILINE,
)


def run_in_kernel(cells, folder):
    """Returns the outputs of each cell."""
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    where = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, kernel_name="python3", timeout=600, resources=where).execute()
    return [cell.outputs for cell in notebook.cells]


@pytest.mark.clients
@pytest.mark.parametrize(
    ("page", "progress"),
    [
        ("policy", ["360 of 360 requests", *["120 of 120 questions"] * 3, "3 of 3 questions"]),
        ("debate", ["40 of 40 questions", "40 of 40 questions"]),
    ],
)
def test_a_page_runs_in_a_kernel_and_shows_what_it_says(page, progress, tmp_path):
    cells = list(CELL.finditer((NOTEBOOKS / f"{page}.md").read_text()))
    outputs = run_in_kernel([cell["code"] for cell in cells], tmp_path)
    lines = []
    n_pictures = 0
    n_results = 0
    for cell, shown in zip(cells, outputs, strict=True):
        printed = ""
        for output in shown:
            data = output.get("data", {})
            n_pictures += "image/png" in data
            n_results += "<pre>" in data.get("text/html", "")
            if output.output_type == "display_data":
                lines.append(data["text/plain"])
            elif output.output_type == "stream":
                printed += output.text if output.name == "stdout" else ""
            elif "<table" not in data.get("text/html", ""):  # a frame, whose width is the reader's
                printed += data["text/plain"]
        assert "\x1b" not in printed
        if cell["shown"] and printed:
            if cell["hide"]:
                printed = re.sub(cell["hide"], "…", printed, flags=re.MULTILINE)
            text = "\n".join(line.rstrip() for line in printed.strip("\n").splitlines())
            assert differs_little(text, cell["shown"], 0.01)
    assert [line.split(",")[0] for line in lines] == progress
    assert (n_results, n_pictures) == (1, 2 if page == "policy" else 1)

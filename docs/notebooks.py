"""Runs the notebooks and saves their outputs: `make notebooks`, or `python docs/notebooks.py NAME ...`.

A notebook is its own source. Outputs are kept as they are, except for what differs between two runs: messages on
stderr, which are printed here instead, and times of the run. The metadata `code` of a notebook is the hash of the code
that produced its outputs.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
NOTEBOOKS = REPOSITORY / "notebooks"
# Seconds that a cell may take.
_CELL_SECONDS = 900


def source(cell: Mapping[str, Any]) -> str:
    """Returns the text of a cell."""
    return "".join(cell["source"])


def code_hash(notebook: Mapping[str, Any]) -> str:
    """Returns the hash of all code cells."""
    code = [source(cell) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return hashlib.sha256(json.dumps(code).encode()).hexdigest()[:16]


def faults(notebook: Mapping[str, Any]) -> Iterator[str]:
    """Yields what is wrong with the outputs of a notebook; nothing if they belong to its code."""
    if notebook["metadata"].get("code") != code_hash(notebook):
        yield "the outputs belong to other code: run `make notebooks`"
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    if [cell["execution_count"] for cell in code] != list(range(1, len(code) + 1)):
        yield "the cells did not run in order: run `make notebooks`"
    for number, cell in enumerate(code, start=1):
        for output in cell["outputs"]:
            if output["output_type"] == "error" or output.get("name") == "stderr":
                yield f"code cell {number} has an error or a warning as output"
            if any(word in json.dumps(output) for word in (" at 0x", "/tmp/", "/home/", "/root/")):
                yield f"code cell {number} has an address or a path of a machine as output"


def run_notebook(path: Path, folder: Path) -> None:
    """Runs a notebook in a folder with a new kernel, and writes its outputs to `path`.

    Args:
        path: the notebook.
        folder: working directory of the kernel.

    Raises:
        nbclient.exceptions.CellExecutionError: if a cell fails.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=_CELL_SECONDS, resources={"metadata": {"path": str(folder)}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = list(_stable(cell.outputs))
    notebook.metadata = {
        "code": code_hash(notebook),
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")


def _stable(outputs: Sequence[Any]) -> Iterator[Any]:
    for output in outputs:
        if output.get("name") == "stderr":
            sys.stderr.write(output["text"])
        else:
            yield output


def main(names: Sequence[str]) -> None:
    """Runs the notebooks of these names, or all."""
    # Commands in cells are those of this environment. TensorFlow reports the machine's devices otherwise.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        if names and path.stem not in names:
            continue
        print(path.name, file=sys.stderr)
        with tempfile.TemporaryDirectory() as folder:
            if "BERT_TF_CHECKPOINTS" in os.environ:
                Path(folder, "checkpoints").symlink_to(Path(os.environ["BERT_TF_CHECKPOINTS"]).resolve())
            run_notebook(path, Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])

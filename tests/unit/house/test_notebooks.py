"""Rules of the notebooks: outputs belong to the code, and hold no errors, warnings or paths of a machine."""

from __future__ import annotations

import json
import re
import runpy
from typing import Any

import pytest

from tests.support.paths import REPOSITORY

NOTEBOOKS = sorted((REPOSITORY / "notebooks").glob("*.ipynb"))
SCRIPT = runpy.run_path(str(REPOSITORY / "docs" / "notebooks.py"))
SITE = runpy.run_path(str(REPOSITORY / "docs" / "site.py"))
# A notebook with more bytes is slow to open and to review.
MOST_BYTES = 300_000


def read(path: Any) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def test_outputs_belong_to_the_code_and_are_free_of_errors() -> None:
    assert len(NOTEBOOKS) == 4
    assert {path.stem: list(SCRIPT["faults"](read(path))) for path in NOTEBOOKS} == {
        path.stem: [] for path in NOTEBOOKS
    }
    assert max(path.stat().st_size for path in NOTEBOOKS) < MOST_BYTES


def test_every_notebook_begins_with_a_title_and_has_pictures() -> None:
    for path in NOTEBOOKS:
        cells = read(path)["cells"]
        assert "".join(cells[0]["source"]).startswith("# ")
        assert sum("image/svg+xml" in output.get("data", {}) for c in cells for output in c.get("outputs", ())) >= 3


def test_relative_links_point_to_files() -> None:
    cells = [cell for path in NOTEBOOKS for cell in read(path)["cells"] if cell["cell_type"] == "markdown"]
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", "".join("".join(cell["source"]) for cell in cells))
    assert len(links) > 8
    assert [link for link in links if not (REPOSITORY / "notebooks" / link).is_file()] == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda cell: cell["source"].append("\n1"), "other code"),
        (lambda cell: cell.update(execution_count=7), "in order"),
        (lambda cell: cell["outputs"].append({"output_type": "error"}), "error"),
        (lambda cell: cell["outputs"].append({"output_type": "stream", "name": "stderr", "text": ["x"]}), "warning"),
        (lambda cell: cell["outputs"].append({"output_type": "stream", "name": "stdout", "text": ["/tmp/x"]}), "path"),
    ],
)
def test_faults_are_found(change: Any, message: str) -> None:
    cell = {"cell_type": "code", "source": ["1"], "execution_count": 1, "outputs": []}
    notebook = {"cells": [cell], "metadata": {}}
    notebook["metadata"] = {"code": SCRIPT["code_hash"](notebook)}
    assert list(SCRIPT["faults"](notebook)) == []
    change(cell)
    (fault,) = SCRIPT["faults"](notebook)
    assert message in fault


def test_every_notebook_is_a_page_of_the_site() -> None:
    navigation = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8")
    assert all(f"notebooks/{path.stem}.md" in navigation for path in NOTEBOOKS)
    page_link = SITE["page_link"]
    assert page_link("../docs/keras.md#pairs", "notebooks", "notebooks/look_inside.md") == "../keras.md#pairs"
    assert page_link("look_inside.ipynb", "notebooks", "notebooks/a.md") == "look_inside.md"


def test_a_page_holds_code_text_and_charts_of_its_notebook() -> None:
    svg = '<svg class="chart"><style>a {}</style><rect></rect></svg>'
    outputs = [{"text": ["a < b\n"]}, {"data": {"image/svg+xml": [svg], "text/plain": ["Chart('x')"]}}]
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {"cell_type": "code", "source": ["print(1)"], "outputs": outputs},
    ]
    page = SITE["notebook_page"]({"cells": cells}, "a.ipynb")
    assert page.startswith("# Title\ntext\n\n") and 'href="../a.ipynb"' in page
    assert "```python\nprint(1)\n```" in page
    assert '<div class="output"><pre><code>a &lt; b</code></pre></div>' in page
    assert '<div class="output"><svg class="chart"><rect></rect></svg></div>' in page

from __future__ import annotations

import json
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from bert_tf.reports.tasks.sweep import (
    RESULTS_JSON,
    RESULTS_MARKDOWN,
    RESULTS_PAGE,
    RunRow,
    settings_of,
    write_results,
)
from tests.support.reports.page_reader import Page

VALUES = {3e-5: [0.7, 0.72, 0.68], 5e-5: [0.66, 0.5, None]}


def rows() -> list[RunRow]:
    found = [
        RunRow(
            f"run{rate:g}_{seed}", {"training.learning_rate": rate, "training.seed": seed},
            None if value is None else {"f1": value - 0.1, "accuracy": value}, 30, 12.5,
            "collapsed: all alike" if value == 0.5 else "the loss is not finite" if value is None else "",
        )
        for rate, values in VALUES.items()
        for seed, value in enumerate(values)
    ]  # fmt: skip
    return [replace(row, is_best=row.value("accuracy") == 0.72) for row in reversed(found)]


def test_restarts_of_a_setting_are_aggregated() -> None:
    good, bad = settings_of(rows(), "accuracy")
    assert good.settings == {"training.learning_rate": 3e-5} and sorted(good.values) == [0.68, 0.7, 0.72]
    assert (good.mean, good.deviation) == pytest.approx((0.7, 0.02))
    assert bad.mean == pytest.approx(0.58) and bad.deviation == pytest.approx(statistics.stdev([0.66, 0.5]))
    assert (bad.mean_uncollapsed, bad.collapsed, bad.failed, len(bad.rows)) == (0.66, 1, 1, 3)


def test_json_markdown_and_page_agree(tmp_path: Path) -> None:
    assert write_results(tmp_path, "RTE | grid", rows(), "accuracy") == tmp_path / RESULTS_PAGE
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([RESULTS_JSON, RESULTS_MARKDOWN, RESULTS_PAGE])
    summary = json.loads((tmp_path / RESULTS_JSON).read_text())
    assert summary["best"] == "run3e-05_1" and summary["metric"] == "accuracy" and len(summary["runs"]) == 6
    assert summary["settings"][0]["standard_deviation"] == pytest.approx(0.02)
    markdown = (tmp_path / RESULTS_MARKDOWN).read_text()
    assert "# RTE \\| grid" in markdown and "| **run3e-05_1** | 3e-05 | 1 | 0.7200 | 0.6200 | 30 | 12 |  |" in markdown
    page = Page((tmp_path / RESULTS_PAGE).read_text())
    page.refuse_foreign()
    tables = page.texts("tr")
    assert tables[1].startswith("training.learning_rate 3e-05" + "3" + "0.7000" + "0.0200")
    assert [text.split(" ")[0] for text in tables[4:6]] == ["run3e-05_1", "run3e-05_03e-0500.70000.60003012"]
    assert page.texts("span", "badge") == ["best", "collapsed", "failed"]
    assert len(page.all("circle", "run")) == 5 and len(page.all("path", "cross")) == 1
    assert page.texts("div", "warn") == ["1 collapsed and 1 failed of 6 runs: see their remarks below."]


@pytest.mark.parametrize(
    "row",
    [
        RunRow("x", {}, None, 0, 0.0, "failed at once"),
        RunRow("<b>\ud800", {"a": "<i>\x00", "seed": 1}, {"accuracy": float("nan")}, 0, 0.0, "<script>\ud800"),
        RunRow("only", {"seed": 3}, {"accuracy": 0.5}, 3, 1.0, is_best=True),
    ],
    ids=["failed", "hostile", "one"],
)
def test_a_single_run(tmp_path: Path, row: RunRow) -> None:
    write_results(tmp_path, "<title>\ud800", [row], "accuracy")
    json.loads((tmp_path / RESULTS_JSON).read_text(), parse_constant=pytest.fail)
    Page((tmp_path / RESULTS_PAGE).read_text(encoding="utf-8")).refuse_foreign()


def test_results_without_runs(tmp_path: Path) -> None:
    write_results(tmp_path, "grid", [], "accuracy")
    assert "0 runs" in Page((tmp_path / RESULTS_PAGE).read_text()).texts("p", "lead")[0]

from __future__ import annotations

import json

from tests.support.training.tiny_run import CONFIG, run


def test_a_run_has_its_page_from_the_start_and_ends_with_it(tmp_path, capfd):
    path, seen = tmp_path / "run/report.html", []

    def at_evaluation(step, batch):
        seen.append((path.read_text().partition("</dl>")[0], json.loads((tmp_path / "run/status.json").read_text())))
        return batch

    run(tmp_path / "run", CONFIG, at_evaluation=at_evaluation)
    page, status = seen[0]
    assert "Running" in page and "of 12 steps" in page
    assert (status["state"], status["total_steps"]) == ("running", 12)
    assert capfd.readouterr().err.count(f"report: {path}") == 1
    head = path.read_text().partition("</dl>")[0]
    assert "Finished" in head and "12 of 12 steps" in head
    assert json.loads((tmp_path / "run/status.json").read_text())["state"] == "finished"

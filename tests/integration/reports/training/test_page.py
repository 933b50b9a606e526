from __future__ import annotations

from tests.support.training.tiny_run import CONFIG, run


def test_finished_run_writes_its_page(tmp_path, capfd):
    run(tmp_path / "run", CONFIG)
    assert f"report: {tmp_path / 'run/report.html'}" in capfd.readouterr().err
    assert "12 of 12 steps" in (tmp_path / "run/report.html").read_text()

"""Progress lines of a pipeline."""

from __future__ import annotations

from beam_pipelines.runners.progress import ProgressReporter


def test_runner_without_progress_is_reported_as_starting() -> None:
    progress = ProgressReporter("data", files=3, text_bytes=100, shards=2)
    with progress:
        assert "the runner is starting" in progress.line()
        assert "0/0" not in progress.line()
        progress.log.note("parts", 4)
        assert "reading, parts 0/4" in progress.line()


def test_workers_that_do_not_report_are_not_counted(capsys) -> None:
    with ProgressReporter("data", files=3, text_bytes=100, shards=2):
        pass
    line = capsys.readouterr().err
    assert line.startswith("data: done, ")
    assert "documents" not in line

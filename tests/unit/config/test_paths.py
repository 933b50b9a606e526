"""URLs are rejected as local paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from bert_tf.config import ConfigError, local_path


@pytest.mark.parametrize("path", ["gs://b/run", "s3://b", "hdfs://host/x", "file:///tmp/x", Path("gs://b/run")])
def test_urls_are_refused_by_name(path: str | Path) -> None:
    with pytest.raises(ConfigError, match="is a URL, .* Use a local path"):
        local_path(path)


@pytest.mark.parametrize("path", ["run", "/tmp/run", "./gs:", "a:b", "runs/gs:/b", "c:/run", "~/run", "", Path("run")])
def test_other_names_are_paths(path: str | Path) -> None:
    assert local_path(path) == Path(path)

"""Runs of several processes whose output is on an object store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bert_tf.storage import Store
from tests.support.training.workers import both, free_ports, start


@pytest.mark.slow
def test_only_the_first_process_writes(s3: str, tmp_path: Path) -> None:
    """Each worker has the cache of another machine; the chief of the resumed run has a new machine."""
    url = f"{s3}/two"
    caches = [{"BERT_TF_CACHE": str(tmp_path / name)} for name in ("first", "second", "third", "fourth")]
    ports = free_ports(2)
    workers = [start(url, ports, 0, **caches[0]), start(url, ports, 1, "kill_at=11", **caches[1])]
    errors = [worker.communicate(timeout=300)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [1, -9], errors
    assert "checkpoints/step-00000005/state.json" in Store(url).files()
    ports = free_ports(2)
    workers = [start(url, ports, index, **caches[2 + index]) for index in range(2)]
    ended = [worker.communicate(timeout=300) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], ended
    assert all("resuming after step" in error for _, error in ended)
    digests = {json.loads(out.splitlines()[-1])["weights_sha256"] for out, _ in ended}
    assert digests == {both(tmp_path / "local")[0]["weights_sha256"]}
    assert not list((tmp_path / "fourth/outputs").glob("*")), "the second worker has no copy to upload"

from __future__ import annotations

import json

import pytest

from tests.support.training.workers import in_subprocess


@pytest.mark.slow
def test_replicas_resume_exactly_with_dropout(tmp_path):
    mirrored = ('strategy="mirrored"', "num_replicas=2", 'optimizer="muon"')
    killed = in_subprocess(tmp_path / "run", *mirrored, "kill_at=8")
    assert killed.returncode == -9
    assert (tmp_path / "run/checkpoints/step-00000005").is_dir()
    digests = []
    for name in ("run", "unbroken"):
        result = in_subprocess(tmp_path / name, *mirrored)
        assert result.returncode == 0, result.stderr
        digests.append(json.loads(result.stdout.splitlines()[-1])["weights_sha256"])
    assert digests[0] == digests[1]

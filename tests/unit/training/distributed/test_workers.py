"""Multi-worker training."""

from __future__ import annotations

import json

import pytest

from bert_tf.config import ConfigError
from bert_tf.training.distributed.rendezvous import Cluster

TASK = {"type": "worker", "index": 1}


def config(workers=("a:1", "b:2"), **task):
    return json.dumps({"cluster": {"worker": list(workers)}, "task": TASK | task})


def test_cluster_is_read_from_tf_config():
    cluster = Cluster.from_environment({"TF_CONFIG": config()})
    assert cluster == Cluster(("a:1", "b:2"), 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "needs TF_CONFIG in the environment of every worker"),
        ("{", "TF_CONFIG must be .* Received: {"),
        ("[]", "TF_CONFIG must be .*"),
        (json.dumps({"task": TASK}), "TF_CONFIG must be .*"),
        (config(["a"]), "TF_CONFIG must be .*"),
        (config(index=2), "`index` must be below the number of workers, 2. Received: 2"),
        (config(type="ps"), "TF_CONFIG must be .* all of them workers"),
        (json.dumps({"cluster": {"worker": ["a:1"], "ps": ["b:2"]}, "task": TASK}), "all of them workers"),
    ],
)
def test_invalid_tf_config_is_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        Cluster.from_environment({"TF_CONFIG": text})

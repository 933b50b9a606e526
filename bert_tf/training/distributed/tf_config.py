"""`TF_CONFIG`: the workers of a run and the index of this process."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from bert_tf.config import ConfigError

VARIABLE = "TF_CONFIG"


@dataclass(frozen=True)
class Cluster:
    """The workers of a run, by their `host:port`, and the index of this process among them."""

    workers: tuple[str, ...] = ("localhost",)
    index: int = 0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Cluster:
        """Reads `TF_CONFIG`. Raises ConfigError unless it names the workers and the index of one of them."""
        text = environment.get(VARIABLE)
        if not text:
            raise ConfigError(
                f"`training.strategy` = multi_worker needs {VARIABLE} in the environment of every worker."
            )
        form = '{"cluster": {"worker": ["host:port", …]}, "task": {"type": "worker", "index": n}}'
        rule = f"{VARIABLE} must be {form}"
        try:
            fields = json.loads(text)
            workers, task = fields["cluster"]["worker"], fields["task"]
            index = int(task["index"])
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigError(f"{rule}. Received: {text}") from error
        fits = isinstance(workers, list) and all(re.fullmatch(r".+:\d+", str(worker)) for worker in workers)
        if not fits or set(fields["cluster"]) != {"worker"} or task.get("type") != "worker":
            raise ConfigError(f"{rule}, all of them workers. Received: {text}")
        if not 0 <= index < len(workers):
            raise ConfigError(
                f"{VARIABLE}: `index` must be below the number of workers, {len(workers)}. Received: {index}"
            )
        return cls(tuple(workers), index)

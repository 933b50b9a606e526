from __future__ import annotations

import json

from bert_tf.training.fit import fit
from bert_tf.training.run_spec import RunSpec, TrainingData
from tests.support.training.tiny_run import CONFIG, build_model, dataset


def test_model_flops_utilization_is_recorded(tmp_path):
    data = TrainingData(lambda start: dataset(8, start))
    fit(RunSpec(build_model, data, flops=lambda _, positions: 1e4 * positions), CONFIG, tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert all(0 < line["mfu"] < 1 for line in lines if line["split"] == "train")

"""Both input pipelines read the same batches from a mirror as from a local directory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bert_tf.config import DataConfig
from bert_tf.data.input import numpy as numpy_pipeline
from bert_tf.data.input import tf as tf_pipeline
from bert_tf.data.verification import verified_data
from bert_tf.storage import Store, mirrors
from tests.support.data.samples import make_vocabulary, write_directory
from tests.support.storage.faulty import create_bucket


@pytest.mark.parametrize("pipeline", ["tf", "numpy"])
def test_batches_of_a_mirror_are_those_of_the_directory(
    pipeline: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERT_TF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tf_pipeline, "WINDOW", 10)
    monkeypatch.setattr(numpy_pipeline, "WINDOW", 10)
    mirrors._mirrored.cache_clear()
    url = f"{create_bucket('data')}/{pipeline}"
    local = tmp_path / "local"
    local.mkdir()
    config = DataConfig(max_seq_length=32, max_predictions_per_seq=5)
    write_directory(local, config, make_vocabulary(), {"train": [23, 1, 0, 40, 17], "validation": [9, 2]})
    for path in local.iterdir():
        Store(url).upload(path, path.name)
    read = tf_pipeline.pretraining_dataset if pipeline == "tf" else numpy_pipeline.pretraining_batches
    for split, options in (("train", {"start_step": 9, "epochs": 3}), ("validation", {"training": False})):
        with verified_data(url, "always"):
            batches = list(read(url, split, batch_size=7, seed=5, **options))
        expected = list(read(local, split, batch_size=7, seed=5, **options))
        assert len(batches) == len(expected) > 1
        for batch, other in zip(batches, expected, strict=True):
            for part, other_part in zip(batch, other, strict=True):
                for name in part:
                    np.testing.assert_array_equal(np.asarray(part[name]), np.asarray(other_part[name]))

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.conversion import Options
from bert_tf.conversion.formats.model_garden import checkpoint as model_garden
from bert_tf.conversion.formats.model_garden.objects import build_objects, holder
from bert_tf.conversion.verify import programs
from bert_tf.conversion.verify.probe_inputs import fixed_inputs
from bert_tf.conversion.verify.reference import reference_outputs
from tests.support.paths import TESTDATA

DATA = TESTDATA
PEER = Path(programs.__file__).parent / "model_garden.py"


def golden(kind: str) -> Path:
    return DATA / f"model_garden_{kind}"


def written(target: Path, objects: dict, config: dict | None = None) -> Path:
    """Returns a checkpoint of the given objects, with the description of the recorded checkpoints."""
    target.mkdir()
    for name in ("bert_config.json", "vocab.txt"):
        shutil.copy(golden("encoder") / name, target / name)
    description = json.loads((target / "bert_config.json").read_text()) | (config or {})
    (target / "bert_config.json").write_text(json.dumps(description))
    tf.train.Checkpoint(**objects).write(str(target / "bert_model.ckpt"))
    return target


def encoder_objects() -> dict:
    objects, _ = build_objects(model_garden.read(golden("encoder"), Options()))
    return objects


def assert_same_answers(checkpoint, recorded) -> None:
    inputs = fixed_inputs(checkpoint.config)
    computed, seen = reference_outputs(checkpoint, inputs), inputs["padding_mask"] != 0
    assert sorted(recorded) == sorted(computed)
    for name, expected in recorded.items():
        received = computed[name]
        if expected.shape[:2] == seen.shape:
            expected, received = expected[seen], received[seen]
        np.testing.assert_allclose(received, expected, rtol=0, atol=1e-5, err_msg=name)


@pytest.fixture
def peer() -> Path:
    if "BERT_TF_PEER_MODEL_GARDEN" not in os.environ:
        pytest.skip("needs BERT_TF_PEER_MODEL_GARDEN, an interpreter with tf-models-official")
    return Path(os.environ["BERT_TF_PEER_MODEL_GARDEN"])


def test_both_encoders_of_the_model_garden_read_a_written_checkpoint(peer, tmp_path):
    checkpoint = model_garden.read(golden("pretrainer"), Options())
    model_garden.write(checkpoint, tmp_path, Options())
    np.savez(tmp_path / "in.npz", **fixed_inputs(checkpoint.config))
    command = [peer, PEER, tmp_path / "bert_model.ckpt", tmp_path / "in.npz", tmp_path / "out.npz", "BertEncoderV2"]
    subprocess.run(command, check=True, capture_output=True)
    with np.load(tmp_path / "out.npz") as outputs:
        assert_same_answers(checkpoint, dict(outputs))


def test_model_garden_refuses_a_checkpoint_with_a_missing_tensor(peer, tmp_path):
    objects = encoder_objects()
    for layer in objects["model"]._transformer_layers:
        layer._output_dense = holder(kernel=layer._output_dense.kernel)
    directory = written(tmp_path / "bad", objects)
    np.savez(tmp_path / "in.npz", **fixed_inputs(model_garden.read(golden("encoder"), Options()).config))
    command = [peer, PEER, directory / "bert_model.ckpt", tmp_path / "in.npz", tmp_path / "out.npz"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode != 0 and "AssertionError" in done.stderr

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

from bert_tf.models import BertBackbone, BertPretrainer
from bert_tf.text.vocabulary import Vocabulary
from tests.support.models.reference_bert import TINY, random_inputs, randomize, reference_forward
from tests.support.paths import REPOSITORY, TESTDATA

# TensorFlow is blocked, because keras-hub imports it if it is installed.
PROGRAM = """
import sys
sys.modules["tensorflow"] = None
sys.modules["tensorflow_text"] = None
import jax
import numpy as np
import keras
from bert_tf.models import load_preset

assert keras.backend.backend() == "jax"
preset = load_preset(sys.argv[1])
inputs = dict(np.load(sys.argv[2]))
eager = preset.model(inputs)
assert not [m for m in sys.modules if m.startswith(("tensorflow.", "tensorflow_text."))]
jitted = jax.jit(lambda x: preset.model(x))(inputs)
for name in eager:
    np.testing.assert_allclose(jitted[name], eager[name], atol=1e-5)
half = load_preset(sys.argv[1], dtype="mixed_bfloat16").model(inputs)
assert all(np.isfinite(x).all() and x.dtype == "float32" for x in half.values())
try:
    preset.model({k: np.pad(v, ((0, 0), (0, 20))) for k, v in inputs.items()})
except ValueError as error:
    assert "max_sequence_length" in str(error)
else:
    raise SystemExit("a sequence that is too long was answered")
np.savez(sys.argv[3], **{name: np.asarray(value) for name, value in eager.items()})
# Checkpoints of transformers and of keras-hub are converted in memory.
for path in sys.argv[4:]:
    assert load_preset(path).kind == "BertPretrainer"
assert not [m for m in sys.modules if m.startswith(("tensorflow.", "tensorflow_text."))]
"""


def test_jax_runs_the_same_model_without_tensorflow(tmp_path):
    if importlib.util.find_spec("jax") is None:
        pytest.skip("needs jax, which is not installed")
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    model, inputs = BertPretrainer(BertBackbone(TINY)), random_inputs()
    randomize(model)
    model.save_to_preset(tmp_path / "preset", Vocabulary(special + tuple(map(str, range(45)))))
    np.savez(tmp_path / "inputs.npz", **inputs)
    paths = [str(tmp_path / name) for name in ("preset", "inputs.npz", "outputs.npz")]
    paths += [str(TESTDATA / name) for name in ("huggingface_pretraining", "keras_hub_masked_lm")]
    environment = os.environ | {
        "KERAS_BACKEND": "jax",
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *paths], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    with np.load(paths[2]) as outputs:
        expected = reference_forward(model, TINY, inputs)
        for name in ("mlm_logits", "nsp_logits"):
            np.testing.assert_allclose(outputs[name], expected[name], atol=1e-5, rtol=1e-5)

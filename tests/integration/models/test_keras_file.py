"""Saved `.keras` files in a new process, which imports Keras and `bert_tf` only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import bert_tf
from tests.support.paths import REPOSITORY
from tests.support.preprocessing.text_presets import LABELS, TEXTS, write_preset

PROGRAM = """
import sys
{imports}
import numpy as np

model = keras.saving.load_model(sys.argv[1])
np.save(sys.argv[2], model.predict(["good film", "a dull story"], verbose=0))
assert model.predict_labels(["good film"])
own = keras.saving.load_model(sys.argv[3])
assert type(own) is keras.Sequential and float(own(np.ones((2, 4), "float32"))[0, 0]) == 1.0
assert type(own.optimizer._learning_rate).__name__ == "LinearWarmupDecay"
assert type(own.layers[0]) is bert_tf.layers.LayerNormalization
"""


@pytest.mark.parametrize("imports", ["import bert_tf\nimport keras", "import keras\nimport bert_tf"])
def test_a_new_process_loads_saved_models(imports: str, tmp_path: Path) -> None:
    preset = write_preset(tmp_path / "preset")
    model = bert_tf.BertTextClassifier.from_preset(preset, num_classes=2)
    model.fit(TEXTS, LABELS, verbose=0)
    model.save(tmp_path / "model.keras")
    # A model of the user that has a layer and a schedule of this project.
    own = keras.Sequential([bert_tf.layers.LayerNormalization(), keras.layers.Dense(1, kernel_initializer="zeros")])
    own.build((None, 4))
    own.layers[1].bias.assign([1.0])
    own.compile(keras.optimizers.Adam(bert_tf.LinearWarmupDecay(1e-3, 1, 10)), "mse")
    own.save(tmp_path / "own.keras")
    files = [tmp_path / name for name in ("model.keras", "outputs.npy", "own.keras")]
    command = [sys.executable, "-c", PROGRAM.format(imports=imports), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr[-3000:]
    expected = model.predict(["good film", "a dull story"], verbose=0)
    np.testing.assert_allclose(np.load(tmp_path / "outputs.npy"), expected, atol=1e-6)

"""Task models trained on texts in other processes: on JAX, on two devices, and loaded in a new session."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import REPOSITORY
from tests.support.preprocessing.text_presets import write_preset

START = """
from bert_tf.entry.quiet import import_tensorflow
import_tensorflow()
"""
FIT = """
import pathlib
import sys
import keras
import numpy as np
import bert_tf
from tests.support.preprocessing.text_presets import LABELS, TEXTS

def learns(folder):
    keras.utils.set_random_seed(1)
    model = bert_tf.BertTextClassifier.from_preset(folder, num_classes=2)
    model.compile(learning_rate=1e-2)
    losses = model.fit(TEXTS, LABELS, batch_size=4, epochs=8, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0], losses
    return model, losses
"""
JAX = """
assert keras.backend.backend() == "jax"
model, _ = learns(sys.argv[1])
ids = model.preprocessor(TEXTS)
np.testing.assert_allclose(model.predict(TEXTS, verbose=0), model.predict(ids, verbose=0), atol=1e-5)
model.save(sys.argv[2])
words = bert_tf.BertTokenClassifier.from_preset(sys.argv[1], num_classes=2)
words.enable_lora(2)
words.fit([["the", "film"]] * 4, [["O", "B-X"]] * 4, verbose=0)
masked = bert_tf.BertMaskedLM.from_preset(sys.argv[1])
masked.fit(TEXTS, verbose=0)
spans = bert_tf.BertSpanPredictor.from_preset(sys.argv[1])
spans.fit((["a"] * 4, ["good film"] * 4), ["film"] * 4, verbose=0)
assert spans.predict_answers((["a"], ["good film"]))[0] in "good film"
"""
FINETUNED = """
import jax
from bert_tf.training.backends import current_backend
from bert_tf.training.backends.jax import JaxTrainingModel

assert len(jax.devices()) == 2
rows = [f"{label}\\t{text} {'fine ' * (3 * number % 29)}" for number, (label, text) in enumerate(zip(LABELS, TEXTS))]
for name in ("train", "dev"):
    pathlib.Path(f"{name}.tsv").write_text("\\n".join(["label\\ttext", *rows]))
# Python runs the step once for each shape that JAX compiles.
widths, step = [], JaxTrainingModel.train_step

def traced(self, state, data):
    widths.append(data[0]["token_ids"].shape[1])
    return step(self, state, data)

JaxTrainingModel.train_step = traced
bert_tf.finetune_task(
    bert_tf.task_class("classify")(), bert_tf.TaskFiles("train.tsv", "dev.tsv"), bert_tf.FinetuneInit(sys.argv[1]),
    bert_tf.TrainingConfig(epochs=3, batch_size=4, strategy="mirrored"), "run",
)
assert 1 < len(widths) == len(set(widths)) <= current_backend().most_widths, widths
"""
MIRRORED = """
import tensorflow as tf

cpus = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpus[0], [tf.config.LogicalDeviceConfiguration()] * 2)
_, expected = learns(sys.argv[1])
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    keras.utils.set_random_seed(1)
    model = bert_tf.BertTextClassifier.from_preset(sys.argv[1], num_classes=2)
    model.compile(learning_rate=1e-2)
losses = model.fit(TEXTS, LABELS, batch_size=4, epochs=8, verbose=0).history["loss"]
assert losses[-1] < 0.5 * losses[0], losses
assert model.optimizer.iterations.numpy() == 64
loss = bert_tf.MaskedLMLoss()
weights = [[[1.0, 1.0, 1.0]], [[1.0, 0.0, 0.0]]]
logits = np.random.default_rng(0).normal(size=(2, 1, 3, 5)).astype("float32")
targets = np.zeros((2, 1, 3), "int32")

def of_replica(context):
    number = context.replica_id_in_sync_group
    return tuple(tf.constant(values[number]) for values in (targets, logits, np.array(weights, "float32")))

arguments = [strategy.experimental_distribute_values_from_function(lambda c, i=i: of_replica(c)[i]) for i in range(3)]
parts = tf.function(lambda: strategy.run(loss, arguments))()
mean = strategy.reduce("MEAN", parts, axis=None)
whole = loss(targets.reshape(2, 3), logits.reshape(2, 3, 5), np.array(weights, "float32").reshape(2, 3))
np.testing.assert_allclose(mean, whole, rtol=1e-5)
"""
LOADED = """
import sys
import keras
import bert_tf.models
model = keras.saving.load_model(sys.argv[1])
print(model.predict_labels(["good film", "bad film"]))
"""


def run(program: str, *arguments: Path, backend: str = "tensorflow", **variables: str) -> str:
    paths = [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"KERAS_BACKEND": backend, "PYTHONPATH": os.pathsep.join(paths)} | variables
    command = [sys.executable, "-c", START + program, *map(str, arguments)]
    folder = arguments[0].parent
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_fit_and_finetune_with_jax_and_reload_in_a_new_process(tmp_path: Path) -> None:
    """Texts of many lengths are fine-tuned on two devices with a few compiled shapes."""
    if importlib.util.find_spec("jax") is None:
        pytest.skip("needs jax, which is not installed")
    preset = write_preset(tmp_path / "preset")
    devices = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    run(FIT + JAX + FINETUNED, preset, tmp_path / "model.keras", backend="jax", **devices)
    assert run(LOADED, tmp_path / "model.keras").strip() == "['pos', 'neg']"


def test_two_devices(tmp_path: Path) -> None:
    run(FIT + MIRRORED, write_preset(tmp_path / "preset"))

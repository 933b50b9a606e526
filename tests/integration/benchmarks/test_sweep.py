"""The sweep of pre-training settings on JAX: a step is that of `pretrain`, and runs do not depend on each other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import REPOSITORY
from tests.support.training.data_directory import write_small_data

pytest.importorskip("jax")

PROGRAM = """
import sys
sys.modules.update(dict.fromkeys(("tensorflow", "tensorflow_text", "tensorboard", "fsspec", "jinja2", "tokenizers")))
from pathlib import Path
import jax, keras, numpy as np
from benchmarks import sweep
from benchmarks.step_row import compiled_step, state_of
from bert_tf.config import BertConfig, TrainingConfig
from bert_tf.models import BertBackbone, BertPretrainer
from bert_tf.training.backends import current_backend
from bert_tf.training.losses import pretraining_objective
from bert_tf.optim.build import make_optimizer

examples = sweep.Examples(Path(sys.argv[1]))
other = {"seed": 2, "learning_rate": 0.01, "momentum": 0.8, "nsp_weight": 0.3, "masked": 0.3, "first_rows": 2}
def group(*settings):
    return sweep.Group.from_json(dict(name="g", model="tiny", fields={"positions": "rotary"}, steps=4, batch_size=8,
                                      evaluations=2, held_out=64, settings=list(settings)))
together = list(sweep.Sweep(group({"masked": 0.3}, other), examples).run(Path(".")))
alone = list(sweep.Sweep(group(other), examples).run(Path(".")))
np.testing.assert_allclose(together[1]["perplexity"], alone[0]["perplexity"], rtol=1e-3)
assert together[0]["perplexity"] != together[1]["perplexity"]

own = sweep.Sweep(group({}), examples)
order = jax.numpy.arange(len(examples.labels))
settings, state = (jax.tree.map(lambda values: values[0], tree) for tree in (own.settings(), own.state()))
weights = jax.jit(own.step)(settings, state, 0, order)[0]
numbers = order[(104_729 + np.arange(8)) % len(order)]
inputs, words, counted, labels = examples.batch(numbers, jax.random.fold_in(jax.random.key(1), 0), 0.15, 5)
batch = inputs, {"mlm_logits": words, "nsp_logits": labels}, {"mlm_logits": counted, "nsp_logits": np.ones(8, "f4")}
config = TrainingConfig(steps=4, batch_size=8, optimizer="muon", learning_rate=3e-3, matrix_learning_rate=8.8e-3,
                        adam_beta_2=0.98, warmup_steps=0)
keras.utils.set_random_seed(1)
model = BertPretrainer(BertBackbone(BertConfig.from_size(
    "tiny", vocabulary_size=examples.vocabulary_size, max_sequence_length=32, dropout=0.0, positions="rotary")))
training = current_backend().training_model(model, pretraining_objective(), 1, False)
training.compile(optimizer=make_optimizer(config, 4, model.trainable_variables))
before = [np.asarray(variable.value) for variable in model.trainable_variables]
step = compiled_step(training, state_of(training), batch)
after = step(state_of(training), batch)[1][0]
# The first rates of both schedules: 1 / (1 + 0.4) of the highest, and the highest.
for one, two, start in zip(weights, after, before, strict=True):
    np.testing.assert_allclose((one - start) * 1.4, two - start, atol=2e-5 + 0.02 * np.abs(two - start).max())
"""


def test_a_step_of_the_sweep_is_that_of_pretrain(tmp_path: Path) -> None:
    data, packed = write_small_data(tmp_path, masking="dynamic"), tmp_path / "examples.npz"
    environment = os.environ | {"KERAS_BACKEND": "jax", "XLA_FLAGS": "--xla_backend_optimization_level=0"}
    commands = [["-m", "benchmarks.sweep", "pack", str(data), str(packed)], ["-c", PROGRAM, str(packed)]]
    for command in commands:
        done = subprocess.run(
            [sys.executable, *command], cwd=REPOSITORY, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-3000:]

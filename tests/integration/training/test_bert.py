"""Training of BERT models."""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
from dataclasses import replace

import keras
import pytest

from bert_tf.config import BertConfig
from bert_tf.models import BertBackbone, BertPretrainer, BertTextClassifier
from bert_tf.optim.build import is_decayed
from bert_tf.training.fit import fit
from bert_tf.training.losses import CLASSIFICATION
from bert_tf.training.run_spec import EvaluationSpec, RunSpec, TrainingData
from tests.support.layers.short_parts import short_parts
from tests.support.training.tiny_run import CONFIG, LENGTH, VOCABULARY, build_model, dataset

BERT = BertConfig(VOCABULARY, 8, 2, 2, 16, max_sequence_length=LENGTH, dropout=0.3)


def pretrainer() -> keras.Model:
    return BertPretrainer(BertBackbone(BERT))


def test_kernels_and_embeddings_are_decayed():
    decayed = {v.path.split("/", 1)[1] for v in pretrainer().trainable_weights if is_decayed(v)}
    layer = {
        *(f"self_attention_layer/{name}/kernel" for name in ("query", "key", "value", "attention_output")),
        "feedforward_intermediate_dense/kernel",
        "feedforward_output_dense/kernel",
    }
    embeddings = {"position_embedding", "segment_embedding", "token_embedding/embeddings"}
    assert decayed == layer | embeddings | {"kernel", "dense/kernel"}


@pytest.mark.parametrize("body", ["", "modern"])
@pytest.mark.parametrize(
    "precision", ["float32", *(pytest.param(half, marks=pytest.mark.slow) for half in ("bfloat16", "float16"))]
)
def test_a_stopped_run_resumes_exactly_with_dropout(tmp_path, precision, body):
    config = replace(CONFIG, steps=6, checkpoint_every=3, precision=precision)

    def train(output):
        build = functools.partial(build_model, body=body) if body else pretrainer
        with short_parts() if body else contextlib.nullcontext():
            result = fit(RunSpec(build, TrainingData(lambda start: dataset(8, start))), config, output)
        assert {v.dtype for v in result.model.trainable_weights} == {"float32"}
        state = json.loads((output / "checkpoints/step-00000006/state.json").read_text())
        return state["files"], result

    files, result = train(tmp_path / "run")
    # Dropout has new random numbers in every step, so the state of its seeds must have changed.
    seeds = [v for v in result.model.non_trainable_variables if "seed_generator_state" in v.path]
    assert seeds
    assert all(int(v.numpy()[1]) > 0 for v in seeds)
    shutil.rmtree(tmp_path / "run/checkpoints/step-00000006")
    assert train(tmp_path / "run")[0] == files


def test_fit_trains_the_classifier(tmp_path):
    def labelled(start, stop=None):
        def first_three(inputs, targets, weights):
            inputs = {name: inputs[name] for name in ("token_ids", "segment_ids", "padding_mask")}
            return inputs, targets["nsp_logits"]

        return dataset(8, start, stop).map(first_three)

    run = RunSpec(
        lambda: BertTextClassifier(BertBackbone(BERT), num_classes=2),
        TrainingData(labelled),
        steps=6,
        objective=CLASSIFICATION,
        evaluation=EvaluationSpec(
            every=3, measure=lambda model, step: {"rows": float(len(model(next(iter(labelled(0)))[0])))}
        ),
    )
    result = fit(run, CONFIG, tmp_path / "run")
    assert result.evaluation == {"rows": 8.0}
    assert result.step == 6

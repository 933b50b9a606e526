from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bert_tf.config import ConfigError
from bert_tf.models import (
    BertBackbone,
    BertBiLSTMEncoder,
    BertFeatureTagger,
    BertProbe,
    BertSpanPredictor,
    BertTextClassifier,
    BertTokenClassifier,
    BiLSTMTagger,
    load_backbone,
    load_preset,
    save_preset,
)
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.support.models.reference_bert import TINY, random_inputs, randomize

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *(f"piece{number}" for number in range(TINY.vocabulary_size - 5))))
CONFIG = replace(TINY, num_layers=4, pooler=False)
INPUTS = {name: values for name, values in random_inputs().items() if name != "mask_positions"}
THERE = INPUTS["padding_mask"] == 1


@pytest.fixture(scope="module")
def backbone():
    encoder = BertBackbone(CONFIG)
    randomize(encoder)
    return encoder


def layers_of(backbone, names):
    return {name: np.asarray(values) for name, values in backbone.features(names)(INPUTS).items()}


@pytest.mark.parametrize("combination", ["embeddings", "concat_last_4", "weighted_sum_all"])
def test_feature_tagger_equals_the_tagger_on_float16_features(backbone, combination):
    model = BertFeatureTagger(backbone, 3, combination, bilstm_dim=4)
    names = ["embeddings"] if combination == "embeddings" else ["layer_1", "layer_2", "layer_3", "layer_4"]
    outputs = layers_of(backbone, names)
    features = np.stack([outputs[name] for name in names], axis=2).astype(np.float16)
    found = np.asarray(model.tagger({"features": features, "padding_mask": INPUTS["padding_mask"]}))
    np.testing.assert_allclose(np.asarray(model(INPUTS))[THERE], found[THERE], atol=1e-5)
    assert {weight.path for weight in model.trainable_weights} == {w.path for w in model.tagger.trainable_weights}


@pytest.mark.parametrize("pooling", ["first", "mean", "max"])
def test_probe_is_linear_in_the_features(backbone, pooling):
    model = BertProbe(backbone, 2, "concat_last_4", pooling)
    names = [f"layer_{number}" for number in range(1, 5)]
    outputs = layers_of(backbone, names)
    how = {"first": lambda row: row[0], "mean": lambda row: row.mean(axis=0), "max": lambda row: row.max(axis=0)}
    rows = range(len(THERE))
    features = np.stack([np.concatenate([how[pooling](outputs[n][row][THERE[row]]) for n in names]) for row in rows])
    kernel, bias = (np.asarray(weight) for weight in model.get_layer("logits").weights)
    np.testing.assert_allclose(model(INPUTS), features.astype(np.float16) @ kernel + bias, atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda e: BertFeatureTagger(e, 0), "`num_classes` must be at least 1"),
        (lambda e: BertFeatureTagger(e, 2, "layer_9"), "Received: 'layer_9'"),
        (lambda e: BertFeatureTagger(e, 2, bilstm_dim=0), "`bilstm_dim` must be at least 1. Received: 0"),
        (lambda e: BertFeatureTagger(e, 2, dropout=1.0), r"`dropout` must be in \[0, 1\). Received: 1.0"),
        (lambda e: BertProbe(e, 2, "last", "last"), "`pooling` must be one of first, mean, max. Received: 'last'"),
        (lambda e: BertProbe(e, 2, "weighted_sum_all"), "weighted sum. Received: weighted_sum_all"),
        (lambda e: BertBiLSTMEncoder(e, 0), "`bilstm_dim` must be at least 1. Received: 0"),
    ],
)
def test_invalid_feature_models_are_refused(backbone, build, message):
    with pytest.raises(ConfigError, match=message):
        build(backbone)


KINDS = {
    "BertFeatureTagger": lambda e: BertFeatureTagger(e, 3, "second_to_last", bilstm_dim=4, dropout=0.2),
    "BertProbe": lambda e: BertProbe(e, 3, "layer_2", "max"),
    "BertTextClassifier": lambda e: BertTextClassifier(BertBiLSTMEncoder(e, 4), 3),
    "BertTokenClassifier": lambda e: BertTokenClassifier(BertBiLSTMEncoder(e, 4), 3),
    "BertSpanPredictor": lambda e: BertSpanPredictor(BertBiLSTMEncoder(e, 4)),
}


@pytest.mark.integration
@pytest.mark.parametrize("kind", KINDS)
def test_presets(kind, tmp_path):
    model = KINDS[kind](BertBackbone(CONFIG))
    randomize(model)
    save_preset(model, tmp_path / "preset", VOCABULARY, True)
    preset = load_preset(tmp_path / "preset")
    assert preset.kind == kind
    assert [weight.path for weight in preset.model.weights] == [weight.path for weight in model.weights]
    expected, found = (m(INPUTS) for m in (model, preset.model))
    for name in expected if isinstance(expected, dict) else [slice(None)]:
        np.testing.assert_array_equal(found[name], expected[name])
    encoder = load_backbone(tmp_path / "preset").model
    assert type(encoder) is BertBackbone
    assert len(encoder.trainable_weights) == len(encoder.weights) == 5 + 16 * CONFIG.num_layers


def test_get_config_of_a_tagger_round_trips():
    tagger = BiLSTMTagger(3, 2, 8, "concat", bilstm_dim=4, dropout=0.3)
    assert BiLSTMTagger.from_config(tagger.get_config()).get_config() == tagger.get_config()

from __future__ import annotations

import pytest

from bert_tf.config import ConfigError
from bert_tf.config.features import COMBINATIONS, combination


@pytest.mark.parametrize(
    ("name", "way", "layers"),
    [
        ("embeddings", "one", ["embeddings"]),
        ("second_to_last", "one", ["layer_11"]),
        ("last", "one", ["layer_12"]),
        ("weighted_sum_last_4", "weighted_sum", ["layer_9", "layer_10", "layer_11", "layer_12"]),
        ("concat_last_4", "concat", ["layer_9", "layer_10", "layer_11", "layer_12"]),
        ("weighted_sum_all", "weighted_sum", [f"layer_{number}" for number in range(1, 13)]),
    ],
)
def test_combinations_of_table_7(name, way, layers):
    found = combination(name, 12)
    assert (found.way, list(found.layers)) == (way, layers)
    assert name in COMBINATIONS


def test_any_single_layer():
    assert combination("layer_3", 4).layers == ("layer_3",)


@pytest.mark.parametrize(
    ("name", "num_layers", "message"),
    [
        ("concat_last_4", 3, "concat_last_4 .* at least 4 layers. Received: 3"),
        ("weighted_sum_last_4", 2, "at least 4 layers. Received: 2"),
        ("second_to_last", 1, "at least 2 layers. Received: 1"),
        ("layer_5", 4, "layer_1 to layer_4. Received: 'layer_5'"),
        ("sum", 4, "must be one of embeddings, second_to_last, last, weighted_sum_last_4, concat_last_4"),
    ],
)
def test_layers_beyond_the_encoder_are_refused(name, num_layers, message):
    with pytest.raises(ConfigError, match=message):
        combination(name, num_layers)

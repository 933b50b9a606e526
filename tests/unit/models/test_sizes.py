from __future__ import annotations

import numpy as np
import pytest

from bert_tf.config import BertConfig
from bert_tf.config.model import MODERN_SIZES, SIZES
from bert_tf.models import BertBackbone, BertPretrainer
from bert_tf.training.logging.flops import forward_flops


def encoder_shapes(config):
    """Returns the shapes of the variables under `bert/` in the original checkpoints."""
    H, W = config.hidden_dim, config.intermediate_dim
    dense = [(H, H), (H,)]
    norm = [(H,), (H,)]
    layer = 4 * dense + norm + [(H, W), (W,), (W, H), (H,)] + norm
    tables = [(config.vocabulary_size, H), (config.max_sequence_length, H), (config.num_segments, H)]
    return tables + norm + config.num_layers * layer + dense


def head_shapes(config):
    """`cls/predictions/transform`, `cls/predictions/output_bias` and `cls/seq_relationship`.

    The vocabulary product's matrix is the token embedding, counted above.
    """
    H = config.hidden_dim
    return [(H, H), (H,), (H,), (H,), (config.vocabulary_size,), (2, H), (2,)]


def count(shapes):
    return sum(int(np.prod(shape)) for shape in shapes)


def test_published_counts():
    base, large = BertConfig.from_size("base"), BertConfig.from_size("large")
    assert count(encoder_shapes(base)) == 109_482_240
    assert count(encoder_shapes(base) + head_shapes(base)) == 110_106_428
    assert count(encoder_shapes(large)) == 335_141_888


# Millions of parameters, heads included, from arXiv 1908.08962 for the named sizes.
@pytest.mark.parametrize(
    "size, millions", [("tiny", 4.4), ("mini", 11.3), ("small", 29.1), ("medium", 41.7), ("base", 110.1)]
)
def test_published_millions(size, millions):
    config = BertConfig.from_size(size)
    assert round(count(encoder_shapes(config) + head_shapes(config)) / 1e6, 1) == millions


@pytest.mark.parametrize("size", ["tiny", "mini", "base"])
def test_models_have_the_published_shapes(size):
    config = BertConfig.from_size(size)
    model = BertPretrainer(BertBackbone(config))
    assert model.backbone.count_params() == count(encoder_shapes(config))
    assert model.count_params() == count(encoder_shapes(config) + head_shapes(config))
    assert len(model.weights) == len(encoder_shapes(config) + head_shapes(config))


@pytest.mark.parametrize(("size", "millions"), [("modern_base", 149), ("modern_large", 395)])
def test_published_millions_of_modernbert(size, millions):
    """The encoders of arXiv 2412.13663, section 3.1; their vocabulary has 50,368 pieces."""
    assert round(BertConfig.from_size(size, vocabulary_size=50_368, pooler=False).num_parameters / 1e6) == millions


@pytest.mark.parametrize("size", [size for size in MODERN_SIZES if size not in ("modern_base", "modern_large")])
def test_small_sizes_of_modernbert_cost_about_as_much_as_those_of_bert(size):
    plain = BertConfig.from_size(size.removeprefix("modern_"))
    config = BertConfig.from_size(size)
    assert config == plain.with_changes(body="modern")
    assert config.intermediate_dim % 64 == 0
    assert forward_flops(config, 128, 20) == pytest.approx(forward_flops(plain, 128, 20), rel=0.06)


@pytest.mark.parametrize("size", sorted(set(SIZES) - set(MODERN_SIZES)))
def test_every_size_has_its_shapes_at_a_small_vocabulary(size):
    config = BertConfig.from_size(size)
    layers, hidden = SIZES[size]
    assert (config.num_layers, config.hidden_dim) == (layers, hidden)
    assert config.num_heads * 64 == hidden and config.intermediate_dim == 4 * hidden
    if hidden <= 256:
        small = BertConfig.from_size(size, vocabulary_size=40, max_sequence_length=16)
        assert BertBackbone(small).count_params() == count(encoder_shapes(small))


def test_all_24_small_sizes_are_known():
    grid = {f"L{layers}_H{hidden}" for layers in (2, 4, 6, 8, 10, 12) for hidden in (128, 256, 512, 768)}
    assert len(grid) == 24 and grid <= set(SIZES)

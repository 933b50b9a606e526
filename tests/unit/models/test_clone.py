"""`keras.models.clone_model` of task models, and how saved models are compiled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_tf.models import (
    BertBackbone,
    BertFeatureTagger,
    BertMaskedLM,
    BertMultipleChoice,
    BertPretrainer,
    BertProbe,
    BertSpanPredictor,
    BertTextClassifier,
    BertTokenClassifier,
)
from tests.support.models.reference_bert import TINY

# A model, the shape of its inputs, and the shape of its targets.
MODELS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], tuple[int, ...]]] = {
    "BertTextClassifier": (lambda backbone: BertTextClassifier(backbone, num_classes=2), (2, 4), (2,)),
    "regression": (lambda backbone: BertTextClassifier(backbone, num_classes=1), (2, 4), (2, 1)),
    "BertTokenClassifier": (lambda backbone: BertTokenClassifier(backbone, num_classes=2), (2, 4), (2, 4)),
    "BertSpanPredictor": (BertSpanPredictor, (2, 4), (2,)),
    "BertMultipleChoice": (BertMultipleChoice, (2, 3, 4), (2,)),
    "BertMaskedLM": (BertMaskedLM, (2, 4), (2, 1)),
}


def inputs_of(model: keras.Model, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Returns one batch of token ids."""
    inputs = {name: np.ones(shape, "int32") for name in ("token_ids", "segment_ids", "padding_mask")}
    return inputs | ({"mask_positions": np.ones((2, 1), "int32")} if "mask_positions" in model.input else {})


@pytest.mark.parametrize("name", MODELS)
def test_a_clone_is_compiled_as_the_model(name: str) -> None:
    make, shape, targets = MODELS[name]
    model = make(BertBackbone(TINY))
    model.compile(learning_rate=1e-3, layer_decay=0.5, run_eagerly=True)
    clone = keras.models.clone_model(model)
    config, expected = clone.get_compile_config(), model.get_compile_config()
    assert expected["optimizer"].pop("auto") == (1e-3, 0.5)
    assert config == expected
    inputs, labels = inputs_of(model, shape), np.ones(targets, "int32")
    y = {"start_logits": labels, "end_logits": labels} if name == "BertSpanPredictor" else labels
    if name != "BertMaskedLM":  # The clone of its head has a copy of the token embedding.
        clone.set_weights(model.get_weights())
        losses = [either.evaluate(inputs, y, verbose=0, return_dict=True) for either in (model, clone)]
        assert losses[0] == losses[1]
    assert np.isfinite(clone.fit(inputs, y, verbose=0).history["loss"]).all()
    assert set(clone.optimizer.rate_scales) == {1.0, 0.5, 0.25, 0.125}


@pytest.mark.parametrize(
    "make",
    [
        BertPretrainer,
        lambda backbone: BertProbe(backbone, num_classes=2),
        lambda backbone: BertFeatureTagger(backbone, num_classes=2, combination="last", bilstm_dim=4),
    ],
)
def test_other_models_are_cloned(make: Callable[[Any], Any]) -> None:
    model = make(BertBackbone(TINY))
    inputs = inputs_of(model, (2, 4))
    outputs = keras.models.clone_model(model)(inputs)
    assert keras.tree.map_structure(np.shape, outputs) == keras.tree.map_structure(np.shape, model(inputs))


@pytest.mark.parametrize("optimizer", ["sgd", keras.optimizers.SGD(0.5)])
def test_a_clone_has_another_optimizer(optimizer: Any) -> None:
    model = BertTextClassifier(BertBackbone(TINY), num_classes=2)
    model.compile(optimizer)
    clone = keras.models.clone_model(model)
    assert type(clone.optimizer) is keras.optimizers.SGD
    assert float(clone.optimizer.learning_rate) == float(model.optimizer.learning_rate)
    again = BertTextClassifier.from_config(model.get_config())
    again.compile_from_config(model.get_compile_config())
    assert type(again.optimizer) is keras.optimizers.SGD and again._auto_optimizer is None


def test_a_loaded_model_has_the_default_optimizer_of_the_saved_one(tmp_path: Path) -> None:
    model = BertTextClassifier(BertBackbone(TINY), num_classes=2)
    model.compile(learning_rate=1e-3, layer_decay=0.5)
    model.freeze_layers(1)
    inputs, labels = inputs_of(model, (2, 4)), np.ones(2, "int32")
    model.fit(inputs, labels, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded._auto_optimizer == (1e-3, 0.5)
    assert [value.path for value in loaded.optimizer.variables] == [value.path for value in model.optimizer.variables]
    for value, other in zip(loaded.optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(value, other)
    loaded.fit(inputs, labels, epochs=3, verbose=0)
    assert loaded.optimizer.get_config()["learning_rate"]["config"]["total_steps"] == 1 + 3


def test_configurations_of_version_0_2_0_compile() -> None:
    model = BertTextClassifier(BertBackbone(TINY), num_classes=2)
    model.compile(learning_rate=1e-3)
    config = model.get_compile_config()
    config["auto_optimizer"] = config["optimizer"].pop("auto")
    again = BertTextClassifier.from_config(model.get_config())
    again.compile_from_config(config)
    assert again._auto_optimizer == (1e-3, 1.0) and "auto_optimizer" in config

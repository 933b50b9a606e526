"""Makes Keras find the classes of this package in saved models before they are imported.

Keras only loads classes that are registered with it, which the import of their module does. Until then it finds
stand-ins for them, which import the module when a model is loaded.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

PACKAGE = "bert_tf"
# Names of registered classes, and of functions in lower case, by a module whose import registers them.
REGISTERED = {
    "bert_tf.layers": (
        "BertEmbeddings", "BiLSTM", "HeadProjection", "LayerNormalization", "MaskedLMHead", "NextSentenceHead",
        "RowsAt", "SeededDropout", "SelfAttention", "TokenPooling", "TransformerLayer", "WeightedSum",
    ),
    "bert_tf.layers.activations": ("gelu_approximate",),
    "bert_tf.layers.choices": ("FoldChoices", "UnfoldChoices"),
    "bert_tf.models": (
        "BertBackbone", "BertBiLSTMEncoder", "BertFeatureTagger", "BertMaskedLM", "BertMultipleChoice",
        "BertPretrainer", "BertProbe", "BertSpanPredictor", "BertTextClassifier", "BertTokenClassifier",
        "BiLSTMTagger",
    ),
    "bert_tf.models.preprocessors.choices": ("BertChoicePreprocessor",),
    "bert_tf.models.preprocessors.masked_lm": ("BertMaskedLMPreprocessor",),
    "bert_tf.models.preprocessors.spans": ("BertSpanPreprocessor",),
    "bert_tf.models.preprocessors.text": ("BertTextPreprocessor",),
    "bert_tf.models.preprocessors.words": ("BertWordPreprocessor",),
    "bert_tf.optim.compile_defaults": ("Accuracy", "FinetuneAdamW", "MaskedLMLoss", "WeightedCrossEntropy"),
    "bert_tf.optim.muon": ("Muon",),
    "bert_tf.optim.optimizers": ("AdamW", "Lamb", "LossScaleOptimizer"),
    "bert_tf.optim.schedules": ("LinearWarmupDecay", "OriginalWarmupDecay", "Trapezoidal"),
}  # fmt: skip


def register_with_keras() -> None:
    """Registers stand-ins for the classes of this package now if Keras is imported, otherwise when it is."""
    if "keras" in sys.modules:
        _register()
    elif not any(isinstance(finder, _KerasImport) for finder in sys.meta_path):
        # `bert_tf` may be reloaded.
        sys.meta_path.insert(0, _KerasImport())


class StandIn:
    """Takes the place of a class or function that is not imported yet.

    Args:
        module: module whose import registers it.
        name: its name.
    """

    def __init__(self, module: str, name: str) -> None:
        self._module = module
        self._name = name

    def __repr__(self) -> str:
        return f"<{PACKAGE}>{self._name}, not imported yet>"

    def resolved(self) -> Any:
        """Returns the class or function, after importing its module."""
        importlib.import_module(self._module)
        return _registry()[f"{PACKAGE}>{self._name}"]

    def from_config(self, config: dict[str, Any]) -> Any:
        """Returns an object of the class."""
        return self.resolved().from_config(config)


class _KerasImport:
    """Finds Keras as Python would, and registers the stand-ins after its import."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "keras":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                _register()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _register() -> None:
    import keras

    registry = _registry()
    for module, names in REGISTERED.items():
        for name in names:
            if f"{PACKAGE}>{name}" in registry:
                continue
            stand_in = StandIn(module, name)
            if name.islower():
                keras.saving.register_keras_serializable(PACKAGE, name)(_function(stand_in))
            else:
                registry[f"{PACKAGE}>{name}"] = stand_in


def _function(stand_in: StandIn) -> Callable[..., Any]:
    """Returns a function that calls one which is not imported yet; Keras uses registered functions as they are."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return stand_in.resolved()(*args, **kwargs)

    return call


def _registry() -> dict[str, Any]:
    """Returns Keras's registered objects by name."""
    import keras

    return keras.saving.get_custom_objects()

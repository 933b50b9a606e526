"""BERT, from raw text to a served model, on TensorFlow, Keras 3 and Apache Beam.

The public names, and packages such as `bert_tf.layers`, are imported on first use. `import bert_tf` is therefore cheap,
and the models also run on Keras backends other than TensorFlow. Keras loads saved models after `import bert_tf` alone.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
from typing import Any

from bert_tf.entry.keras_classes import register_with_keras

__version__ = "0.2.0"

_HOMES = {
    "BertConfig": "bert_tf.config",
    "ConfigError": "bert_tf.config",
    "DataConfig": "bert_tf.config",
    "RunConfig": "bert_tf.config",
    "TrainingConfig": "bert_tf.config",
    "BertTokenizer": "bert_tf.text.tokenizer",
    "tokenizer_of": "bert_tf.text.byte_pairs",
    "Vocabulary": "bert_tf.text.vocabulary",
    "load_vocabulary": "bert_tf.text.vocabulary",
    "save_vocabulary": "bert_tf.text.vocabulary",
    "pack": "bert_tf.text.packing",
    "Manifest": "bert_tf.data.manifest",
    "read_manifest": "bert_tf.data.manifest",
    "pretraining_dataset": "bert_tf.data.input.tf",
    "BertEmbeddings": "bert_tf.layers",
    "MaskedLMHead": "bert_tf.layers",
    "NextSentenceHead": "bert_tf.layers",
    "BertBackbone": "bert_tf.models",
    "BertBiLSTMEncoder": "bert_tf.models",
    "BertFeatureTagger": "bert_tf.models",
    "BertMaskedLM": "bert_tf.models",
    "BertMultipleChoice": "bert_tf.models",
    "BertPretrainer": "bert_tf.models",
    "BertProbe": "bert_tf.models",
    "BertSpanPredictor": "bert_tf.models",
    "BertTextClassifier": "bert_tf.models",
    "BertTokenClassifier": "bert_tf.models",
    "Preset": "bert_tf.models",
    "average_presets": "bert_tf.models",
    "load_backbone": "bert_tf.models",
    "load_preset": "bert_tf.models",
    "save_preset": "bert_tf.models",
    "BertChoicePreprocessor": "bert_tf.models.preprocessors.choices",
    "BertMaskedLMPreprocessor": "bert_tf.models.preprocessors.masked_lm",
    "BertSpanPreprocessor": "bert_tf.models.preprocessors.spans",
    "BertTextPreprocessor": "bert_tf.models.preprocessors.text",
    "BertWordPreprocessor": "bert_tf.models.preprocessors.words",
    "MaskedLMLoss": "bert_tf.optim.compile_defaults",
    "LinearWarmupDecay": "bert_tf.optim.schedules",
    "TrainResult": "bert_tf.training.fit",
    "evaluate_pretraining": "bert_tf.training.evaluation.evaluate",
    "fit": "bert_tf.training.fit",
    "EvaluationSpec": "bert_tf.training.run_spec",
    "RunSpec": "bert_tf.training.run_spec",
    "TrainingData": "bert_tf.training.run_spec",
    "weights_sha256": "bert_tf.training.fit",
    "Ensemble": "bert_tf.tasks.predictor",
    "TaskPredictor": "bert_tf.tasks.predictor",
    "TaskFiles": "bert_tf.tasks.entry",
    "FinetuneInit": "bert_tf.tasks.finetune.init",
    "embed": "bert_tf.tasks.features.texts",
    "finetune_task": "bert_tf.tasks.finetune.run",
    "task_class": "bert_tf.tasks.registry",
    "convert": "bert_tf.conversion",
    "read_checkpoint": "bert_tf.conversion",
    "export_preset": "bert_tf.export.saved_model",
    "serve": "bert_tf.serving.server",
}

__all__ = sorted(_HOMES)


# Packages that import Keras. On its TensorFlow backend, TensorFlow would print eight lines of notices first.
_ON_KERAS = ("encoding", "layers", "models", "optim", "tasks", "training")


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name, f"{__name__}.{name}")
    is_module_name = name.isidentifier() and not name.startswith("_")
    if name not in _HOMES and not (is_module_name and importlib.util.find_spec(home)):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if home.split(".")[1] in _ON_KERAS and os.environ.get("KERAS_BACKEND", "tensorflow") == "tensorflow":
        from bert_tf.entry.quiet import import_tensorflow

        import_tensorflow(freeze=False)
    module = importlib.import_module(home)
    return getattr(module, name) if name in _HOMES else module


def __dir__() -> list[str]:
    packages = [module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")]
    return sorted({*globals(), *_HOMES, *packages})


register_with_keras()

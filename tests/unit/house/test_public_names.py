"""The public surface, frozen: a change here is a change of the API and belongs in the CHANGELOG."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

import pytest

import bert_tf

PUBLIC_NAMES = """
BertBackbone BertBiLSTMEncoder BertChoicePreprocessor BertConfig BertEmbeddings BertFeatureTagger BertMaskedLM
BertMaskedLMPreprocessor BertMultipleChoice BertPretrainer BertProbe BertSpanPredictor BertSpanPreprocessor
BertTextClassifier BertTextPreprocessor BertTokenClassifier BertTokenizer BertWordPreprocessor ConfigError DataConfig
Ensemble EvaluationSpec FinetuneInit LinearWarmupDecay Manifest MaskedLMHead MaskedLMLoss NextSentenceHead Preset
RunConfig RunSpec TaskFiles TaskPredictor TrainResult TrainingConfig TrainingData Vocabulary average_presets convert
embed evaluate_pretraining export_preset finetune_task fit load_backbone load_preset load_vocabulary pack
pretraining_dataset read_checkpoint read_manifest save_preset save_vocabulary serve task_class
tokenizer_of weights_sha256
""".split()  # noqa: SIM905


def test_public_names_are_frozen() -> None:
    assert sorted(bert_tf.__all__) == sorted(PUBLIC_NAMES)


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_every_name_resolves_and_is_documented(name: str) -> None:
    value = getattr(bert_tf, name)
    assert value.__doc__
    assert importlib.import_module(value.__module__).__name__.startswith("bert_tf")


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_paths_may_be_strings(name: str) -> None:
    value = getattr(bert_tf, name)
    members = [getattr(value, member) for member in vars(value)] if isinstance(value, type) else [value]
    for function in members:
        if not (inspect.isfunction(function) or inspect.ismethod(function)):
            continue
        for parameter in inspect.signature(function).parameters.values():
            kinds = str(parameter.annotation)
            assert "Path" not in kinds or "str" in kinds, f"{function.__qualname__}: `{parameter.name}` is {kinds}"


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="BertBackbon"):
        bert_tf.BertBackbon  # noqa: B018


def test_packages_are_attributes_of_the_package() -> None:
    code = """
import bert_tf
assert bert_tf.config.BertConfig is bert_tf.BertConfig and bert_tf.export.__name__ == "bert_tf.export"
assert {"layers", "models", "export", "BertConfig"} <= set(dir(bert_tf))
assert not [name for name in ("layer", "_layers", "__wrapped__", "text.words", "") if hasattr(bert_tf, name)]
print(bert_tf.layers.TransformerLayer.__name__, bert_tf.models.BertBackbone.__name__)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "TransformerLayer BertBackbone"


def test_import_of_the_package_is_light() -> None:
    heavy = "('tensorflow', 'keras', 'apache_beam', 'numpy')"
    code = f"import sys, bert_tf, bert_tf.config; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"

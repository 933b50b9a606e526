"""Creates the presets `keras_hub_*` beside this file with keras-hub 0.32, in this project's own environment.

Each is written by `save_to_preset`. `outputs.npz` holds the outputs for `fixed_inputs` after `from_preset`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import keras
import keras_hub
import numpy as np

from bert_tf.config import BertConfig
from bert_tf.conversion.verify.probe_inputs import fixed_inputs

HERE = Path(__file__).parent
PEER = HERE.parents[1] / "bert_tf" / "conversion" / "verify" / "programs" / "keras_hub.py"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
UNCASED = [*SPECIAL, *(f"{prefix}{letter}" for prefix in ("", "##") for letter in "abcdefghijklmno")]
CASED = [*SPECIAL, *"ABCDEFGHIJ", *(f"##{letter}" for letter in "abcdefghijklmno")]


def backbone(vocabulary: list[str], layers: int = 1) -> keras.Model:
    return keras_hub.models.BertBackbone(len(vocabulary), layers, 2, 8, 16, dropout=0.2, max_sequence_length=16)


def randomized(model: keras.Model) -> keras.Model:
    random = np.random.default_rng(0)
    for weight in model.weights:
        one = 1.0 if "gamma" in weight.path else 0.0
        weight.assign(one + 0.4 * random.standard_normal(weight.shape))
    return model


def save(name: str, model: keras.Model, tokenizer: keras_hub.models.BertTokenizer) -> None:
    directory = HERE / f"keras_hub_{name}"
    shutil.rmtree(directory, ignore_errors=True)
    randomized(model).save_to_preset(directory)
    tokenizer.save_to_preset(directory)
    config = BertConfig(vocabulary_size=tokenizer.vocabulary_size(), max_sequence_length=16)
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder) / "inputs.npz"
        np.savez(given, **fixed_inputs(config))  # type: ignore[arg-type]
        subprocess.run(
            [sys.executable, str(PEER), str(directory), str(given), str(directory / "outputs.npz")], check=True
        )


def main() -> None:
    tokenizer = keras_hub.models.BertTokenizer(UNCASED, lowercase=True, strip_accents=True)
    save("backbone", backbone(UNCASED, layers=2), tokenizer)
    processor = keras_hub.models.BertMaskedLMPreprocessor(tokenizer, sequence_length=16)
    save("masked_lm", keras_hub.models.BertMaskedLM(backbone(UNCASED), processor), tokenizer)
    cased = keras_hub.models.BertTokenizer(CASED)
    text = keras_hub.models.BertTextClassifierPreprocessor(cased, sequence_length=16)
    save("classifier", keras_hub.models.BertTextClassifier(backbone(CASED), 3, text, dropout=0.3), cased)


if __name__ == "__main__":
    main()

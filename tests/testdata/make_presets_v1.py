"""Creates small presets of format version 1, with the outputs of their models.

    python -m tests.testdata.make_presets_v1

The presets in `preset_v1.zip` were made on commit b4683e9, whose `save_preset` writes version 1. Later commits read
version 1 and write version 2, so this script must run on that commit.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np

from bert_tf import models
from bert_tf.config import BertConfig
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

ARCHIVE = Path(__file__).parent / "preset_v1.zip"
CONFIG = BertConfig(
    vocabulary_size=20,
    hidden_dim=4,
    num_layers=2,
    num_heads=2,
    intermediate_dim=6,
    max_sequence_length=9,
    dropout=0.2,
    activation="gelu",
)
BARE = replace(CONFIG, num_layers=1, pooler=False)
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *(f"piece{number}" for number in range(CONFIG.vocabulary_size - 5))))


def built() -> dict[str, keras.Model]:
    """Returns new models of all kinds by name."""
    head = replace(CONFIG, mlm_activation="relu", mlm_layer_norm_epsilon=0.5, attention_dropout=0.3)
    left_to_right = replace(BARE, attention="left_to_right")
    small = replace(CONFIG, num_layers=1)
    return {
        "encoder": models.BertBackbone(CONFIG),
        "pretrainer": models.BertPretrainer(models.BertBackbone(replace(head, num_layers=1))),
        "masked_lm": models.BertPretrainer(models.BertBackbone(BARE), next_sentence=False),
        "text_classifier": models.BertTextClassifier(models.BertBackbone(small), 3, dropout=0.25),
        "bilstm_classifier": models.BertTextClassifier(
            models.BertBiLSTMEncoder(models.BertBackbone(left_to_right), 3), 2, pooling="max"
        ),
        "token_classifier": models.BertTokenClassifier(models.BertBackbone(BARE), 4, dropout=0.5),
        "span_predictor": models.BertSpanPredictor(models.BertBackbone(BARE)),
        "multiple_choice": models.BertMultipleChoice(models.BertBackbone(small), dropout=0.0),
        "feature_tagger": models.BertFeatureTagger(models.BertBackbone(BARE), 3, "weighted_sum_all", 2, dropout=0.4),
        "probe": models.BertProbe(models.BertBackbone(BARE), 2, "layer_1", "mean"),
    }


def inputs(model: keras.Model) -> dict[str, np.ndarray]:
    """Returns two rows, or two examples of two choices, of random ids; the second row has padding."""
    random = np.random.default_rng(1)
    mask = np.array([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0]], "int32")
    rows = {
        "token_ids": random.integers(5, CONFIG.vocabulary_size, mask.shape).astype("int32") * mask,
        "segment_ids": np.array([[0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 0, 0, 0]], "int32"),
        "padding_mask": mask,
        "mask_positions": np.array([[1, 5], [2, 0]], "int32"),
    }
    rows = {name: rows[name] for name in model.input}
    if model.input["token_ids"].ndim == 3:
        return {name: np.stack([ids, ids[::-1]], axis=1) for name, ids in rows.items()}
    return rows


def write(folder: Path) -> None:
    """Writes a preset, its inputs and its outputs for every model."""
    for seed, (name, model) in enumerate(built().items()):
        random = np.random.default_rng(seed)
        for weight in model.weights:
            weight.assign(weight.path.endswith("gamma") + 0.3 * random.normal(size=weight.shape))
        task = {"labels": ["a", "b", "c"]} if name == "text_classifier" else None
        models.save_preset(model, folder / name, VOCABULARY, lowercase=seed % 2 == 0, task=task, info={"step": seed})
        arrays = inputs(model)
        outputs = model(arrays)
        outputs = outputs if isinstance(outputs, dict) else {"output": outputs}
        np.savez_compressed(
            folder / f"{name}.npz",
            **{f"inputs/{key}": value for key, value in arrays.items()},
            **{f"outputs/{key}": np.asarray(value) for key, value in outputs.items()},
        )


def main() -> None:
    """Writes the archive."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        shutil.make_archive(str(ARCHIVE.with_suffix("")), "zip", folder)


if __name__ == "__main__":
    main()

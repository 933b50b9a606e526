"""Example requests of `saved_models/examples`, and the kind of model that answers each."""

from __future__ import annotations

EXAMPLES = {
    "classify.json": "classifier",
    "classify_columns.json": "classifier",
    "ids.json": "classifier",
    "classify_pairs.json": "pair_classifier",
    "fill_mask.json": "pretrainer",
    "fill_mask_ids.json": "pretrainer",
    "embed.json": "pretrainer",
    "layers.json": "pretrainer",
    "answer.json": "spans",
    "choose.json": "choices",
    "entities.json": "entities",
    "number.json": "regression",
}

"""The model card of an exported version, and the part of it that clients may read."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_tf.config.base import parse_json
from bert_tf.export.metadata import MODEL_CARD

logger = logging.getLogger(__name__)

# Fields of the card that do not name directories of the machine that exported the model.
_PUBLIC = (
    "kind", "task", "exported", "parameters", "precision", "model", "labels", "tag_scheme", "lowercase",
    "max_sequence_length", "top_k", "tokenizer", "versions",
)  # fmt: skip
# The same of `info`, which describes the training run.
_OF_TRAINING = ("data_name", "train_examples", "dev_examples", "languages", "step", "example")
# Held-out metrics that pre-training writes into `info` itself.
_PRETRAINING_METRICS = (
    "mlm_accuracy", "mlm_perplexity", "mlm_loss",
    "causal_lm_accuracy", "causal_lm_perplexity", "causal_lm_loss", "nsp_accuracy",
)  # fmt: skip


def read_card(folder: Path) -> dict[str, Any]:
    """Returns the model card of a version; {} if it has none, or one that is not a JSON object."""
    path = folder / MODEL_CARD
    try:
        card = parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        logger.warning("%s: must be a JSON object, so the model is served without a card. Received: %s", path, error)
        return {}
    return card if isinstance(card, dict) else {}


def public_facts(card: Mapping[str, Any]) -> dict[str, Any]:
    """Selects the facts of a model card for clients, without directories of the machine that exported it.

    Args:
        card: the model card, as `bert-tf export` writes it; fields may be missing.

    Returns:
        The known fields of the card, `training`, and `metrics` on the development or validation data. Unknown facts are
        left out.
    """
    info = _object(card.get("info"))
    evaluation = _object(card.get("evaluation"))
    metrics = _object(_object(evaluation.get("exported")).get("metrics")) or _object(info.get("metrics"))
    facts = {name: card.get(name) for name in _PUBLIC}
    facts["training"] = {name: info[name] for name in _OF_TRAINING if name in info}
    facts["metrics"] = metrics or {name: info[name] for name in _PRETRAINING_METRICS if name in info}
    if evaluation:
        data = Path(str(evaluation.get("data", ""))).name
        facts["evaluated"] = {"data_name": data, "examples": evaluation.get("examples")}
    return {name: value for name, value in facts.items() if value not in (None, {}, [])}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}

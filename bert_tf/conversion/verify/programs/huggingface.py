"""Answers of a checkpoint as transformers opens it: python huggingface.py CHECKPOINT INPUTS.npz OUTPUTS.npz.

Stands alone: it runs where torch and transformers are installed, and nothing else of this project is.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

# From the most heads to the fewest: what a directory holds more than the class it names is to be compared too.
PRETRAINED = ("BertForPreTraining", "BertForMaskedLM", "BertForNextSentencePrediction", "BertModel")
TASKS = (
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertForQuestionAnswering",
    "BertForMultipleChoice",
)


def opened(path: Path) -> Any:
    """Returns the model of all weights in a directory, and fails where one is missing."""
    named = json.loads((path / "config.json").read_text(encoding="utf-8")).get("architectures") or []
    tried: dict[str, Any] = {}
    for name in named if named and named[0] in TASKS else (*PRETRAINED, *(() if named else TASKS)):
        for options in ({}, {"add_pooling_layer": False}) if name == "BertModel" else ({},):
            model, loading = getattr(transformers, name).from_pretrained(
                path, dtype=torch.float32, output_loading_info=True, **options
            )
            faults = {key: sorted(map(str, loading[key])) for key in ("missing_keys", "mismatched_keys")}
            heads = [key for key in loading["unexpected_keys"] if key.startswith(("classifier", "qa_outputs"))]
            if not any(faults.values()) and not (heads and not named):
                return model.eval()
            tried[f"{name} {options or ''}"] = faults
    sys.exit(f"{path}: no class finds all of its weights there: {json.dumps(tried, indent=1)}")


def outputs(model: Any, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns what a model answers, float32.

    Args:
        model: of one of the classes above.
        inputs: `token_ids`, `segment_ids`, `padding_mask` (B, S) and `mask_positions` (B, P).
    """
    given = {
        "input_ids": torch.tensor(inputs["token_ids"].astype(np.int64)),
        "token_type_ids": torch.tensor(inputs["segment_ids"].astype(np.int64)),
        "attention_mask": torch.tensor(inputs["padding_mask"].astype(np.int64)),
    }
    encoded = model.base_model(**given)
    found = {"sequence_output": encoded.last_hidden_state, "pooled_output": encoded.pooler_output}
    if type(model).__name__ == "BertForMultipleChoice":
        given = {name: tensor[:, None] for name, tensor in given.items()}
    answer = model(**given) if type(model).__name__ != "BertModel" else {}
    rows = torch.tensor(inputs["mask_positions"].astype(np.int64))
    if (scores := answer.get("prediction_logits")) is not None:
        found |= {"mlm_logits": _at(scores, rows), "nsp_logits": answer["seq_relationship_logits"]}
    elif type(model).__name__ == "BertForMaskedLM":
        found["mlm_logits"] = _at(answer["logits"], rows)
    elif type(model).__name__ == "BertForNextSentencePrediction":
        found["nsp_logits"] = answer["logits"]
    elif "start_logits" in answer:
        found["task_logits"] = torch.stack([answer["start_logits"], answer["end_logits"]], dim=-1)
    elif "logits" in answer:
        found["task_logits"] = answer["logits"]
    return {name: tensor.numpy() for name, tensor in found.items() if tensor is not None}


def _at(scores: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return torch.take_along_dim(scores, rows[..., None], dim=1)


def main() -> None:
    """Computes and writes."""
    checkpoint, given, taken = map(Path, sys.argv[1:])
    with np.load(given) as file:
        inputs = {name: file[name] for name in file.files}
    torch.set_num_threads(2)
    with torch.no_grad():
        np.savez(taken, **outputs(opened(checkpoint), inputs))  # type: ignore[arg-type]
    print(json.dumps({"by": f"transformers {transformers.__version__}"}))


if __name__ == "__main__":
    main()

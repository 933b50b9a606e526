"""Computes outputs with transformers: python huggingface.py CHECKPOINT INPUTS.npz OUTPUTS.npz.

Needs torch and transformers, but no other module of this project.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

# From the most heads to the fewest: heads beyond the class named in the configuration are compared too.
PRETRAINED = ("BertForPreTraining", "BertForMaskedLM", "BertForNextSentencePrediction", "BertModel")
PRETRAINED_MODERN = ("ModernBertForMaskedLM", "ModernBertModel")
TASKS = tuple(
    f"{kind}For{task}"
    for kind in ("Bert", "ModernBert")
    for task in ("SequenceClassification", "TokenClassification", "QuestionAnswering", "MultipleChoice")
)


def opened(path: Path) -> Any:
    """Returns the model that uses all weights of a directory; exits if a weight is missing."""
    config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    named = config.get("architectures") or []
    pretrained = PRETRAINED_MODERN if config.get("model_type") == "modernbert" else PRETRAINED
    attempts: dict[str, Any] = {}
    for name in named if named and named[0] in TASKS else (*pretrained, *(() if named else TASKS)):
        for options in ({}, {"add_pooling_layer": False}) if name == "BertModel" else ({},):
            model, loading = getattr(transformers, name).from_pretrained(
                path, dtype=torch.float32, output_loading_info=True, **options
            )
            faults = {key: sorted(map(str, loading[key])) for key in ("missing_keys", "mismatched_keys")}
            heads = [key for key in loading["unexpected_keys"] if key.startswith(("classifier", "qa_outputs"))]
            if not any(faults.values()) and not (heads and not named):
                return model.eval()
            attempts[f"{name} {options or ''}"] = faults
    sys.exit(f"{path}: must hold all weights of a class. Received: {json.dumps(attempts, indent=1)}")


def outputs(model: Any, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Computes the outputs of an instance of one of the classes above in float32."""
    features = {
        "input_ids": torch.tensor(inputs["token_ids"].astype(np.int64)),
        "token_type_ids": torch.tensor(inputs["segment_ids"].astype(np.int64)),
        "attention_mask": torch.tensor(inputs["padding_mask"].astype(np.int64)),
    }
    if type(model).__name__.startswith("ModernBert"):
        del features["token_type_ids"]
    encoded = model.base_model(**features)
    tensors = {"sequence_output": encoded.last_hidden_state, "pooled_output": encoded.get("pooler_output")}
    if type(model).__name__.endswith("ForMultipleChoice"):
        features = {name: tensor[:, None] for name, tensor in features.items()}
    result = model(**features) if model is not model.base_model else {}
    rows = torch.tensor(inputs["mask_positions"].astype(np.int64))
    if (scores := result.get("prediction_logits")) is not None:
        tensors |= {"mlm_logits": _at(scores, rows), "nsp_logits": result["seq_relationship_logits"]}
    elif type(model).__name__.endswith("ForMaskedLM"):
        tensors["mlm_logits"] = _at(result["logits"], rows)
    elif type(model).__name__ == "BertForNextSentencePrediction":
        tensors["nsp_logits"] = result["logits"]
    elif "start_logits" in result:
        tensors["task_logits"] = torch.stack([result["start_logits"], result["end_logits"]], dim=-1)
    elif "logits" in result:
        tensors["task_logits"] = result["logits"]
    return {name: tensor.numpy() for name, tensor in tensors.items() if tensor is not None}


def _at(scores: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return torch.take_along_dim(scores, rows[..., None], dim=1)


def main() -> None:
    """Reads the inputs, writes the outputs, and prints the program and its version."""
    checkpoint, inputs_path, outputs_path = map(Path, sys.argv[1:])
    with np.load(inputs_path) as file:
        inputs = {name: file[name] for name in file.files}
    torch.set_num_threads(2)
    with torch.no_grad():
        np.savez(outputs_path, **outputs(opened(checkpoint), inputs))  # type: ignore[arg-type]
    print(json.dumps({"by": f"transformers {transformers.__version__}"}))


if __name__ == "__main__":
    main()

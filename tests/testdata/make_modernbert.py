"""Records `modernbert.npz`: weights of small ModernBERT models of transformers, and their outputs.

    PEER/bin/pip install 'torch==2.15.0' 'transformers==5.24.0'
    PEER/bin/python tests/testdata/make_modernbert.py

The weights are random, of the size of trained ones; all models have the encoder of the first. Its layers see 3 tokens
on each side, except the first and the fourth. Arrays are named `CLASS/weights/NAME` and `CLASS/outputs/NAME`; `token_ids`
and `padding_mask` are the inputs.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import transformers

CONFIG = {
    "vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 5, "num_attention_heads": 4, "intermediate_size": 48,
    "local_attention": 6, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3,
    "cls_token_id": 2, "sep_token_id": 3,
}  # fmt: skip
CLASSES = {
    "ModernBertForMaskedLM": {},
    "ModernBertForSequenceClassification": {"classifier_pooling": "cls", "num_labels": 3},
    "ModernBertForTokenClassification": {"num_labels": 3},
    "ModernBertForQuestionAnswering": {},
    "ModernBertForMultipleChoice": {"classifier_pooling": "cls"},
}


def main() -> None:
    torch.manual_seed(1)
    random = np.random.default_rng(2)
    mask = (np.arange(20) < np.array([[20], [13], [5]])).astype(np.int64)
    ids = random.integers(4, 60, mask.shape) * mask
    arrays = {"token_ids": ids, "padding_mask": mask}
    inputs = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}
    encoder: dict[str, torch.Tensor] = {}
    for name, options in CLASSES.items():
        config = transformers.ModernBertConfig(**CONFIG, **options, attn_implementation="eager")
        model = getattr(transformers, name)(config).eval()
        with torch.no_grad():
            for key, parameter in model.named_parameters():
                if key in encoder:
                    parameter.copy_(encoder[key])
                    continue
                scale, center = (0.3, 1.0) if "norm" in key else (0.2, 0.0)
                parameter.copy_(center + scale * torch.randn(parameter.shape))
                arrays[f"{name}/weights/{key}"] = parameter.numpy().copy()
                if key.startswith("model."):
                    encoder[key] = parameter.clone()
            of_choices = name.endswith("MultipleChoice")
            found = model(**({key: value[:, None] for key, value in inputs.items()} if of_choices else inputs))
            hidden = model.model(**inputs, output_hidden_states=True).hidden_states
        outputs = {key: found[key] for key in ("logits", "start_logits", "end_logits") if key in found}
        arrays |= {f"{name}/outputs/{key}": value.numpy() for key, value in outputs.items()}
        if name == "ModernBertForMaskedLM":
            arrays |= {f"{name}/outputs/hidden_{number}": value.numpy() for number, value in enumerate(hidden)}
    np.savez_compressed(Path(__file__).parent / "modernbert.npz", **arrays)


if __name__ == "__main__":
    main()

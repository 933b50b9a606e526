"""Hugging Face's `BertForPreTraining` on the batches of `time_to_quality`, with AdamW and the head at masked positions.

Runs in an environment of its own; see `benchmarks.train_step`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
import transformers

from benchmarks.peers import quality
from benchmarks.peers.session import Session


def build_model(folder: Path, dropout: float) -> transformers.BertForPreTraining:
    """Builds the model of the batches' folder."""
    shape = json.loads((folder / quality.MODEL_NAME).read_text())
    config = transformers.BertConfig(
        vocab_size=shape["vocabulary_size"],
        hidden_size=shape["hidden_dim"],
        num_hidden_layers=shape["num_layers"],
        num_attention_heads=shape["num_heads"],
        intermediate_size=shape["intermediate_dim"],
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    return transformers.BertForPreTraining(config).train()


def masked_logits(model: transformers.BertForPreTraining, batch: Mapping[str, torch.Tensor]):
    """Returns logits of masked pieces (B P, V) and of next sentences (B, 2)."""
    encoded = model.bert(batch["token_ids"], attention_mask=batch["padding_mask"], token_type_ids=batch["segment_ids"])
    hidden, positions = encoded.last_hidden_state, batch["mask_positions"]
    chosen = hidden.gather(1, positions[..., None].expand(-1, -1, hidden.shape[-1]))
    return model.cls.predictions(chosen).flatten(0, 1), model.cls.seq_relationship(encoded.pooler_output)


def main() -> None:
    """Trains on all batches."""
    args = quality.arguments(__doc__).parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    session, model = Session(), build_model(args.batches, args.dropout)
    vectors = [parameter for parameter in model.parameters() if parameter.ndim == 1]
    matrices = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": quality.WEIGHT_DECAY}, {"params": vectors, "weight_decay": 0.0}],
        lr=args.rate, eps=quality.EPSILON, fused=True,
    )  # fmt: skip
    session.tell(parameters=sum(parameter.numel() for parameter in model.parameters()))
    cross_entropy = torch.nn.functional.cross_entropy

    def convert(batch: quality.Batch) -> dict[str, torch.Tensor]:
        arrays = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in batch.items()}
        return {name: array.long() if not array.is_floating_point() else array for name, array in arrays.items()}

    def step(batch: Mapping[str, torch.Tensor], rate: float) -> None:
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad(set_to_none=True)
        masked, following = masked_logits(model, batch)
        weights = batch["mask_weights"].flatten()
        each = cross_entropy(masked, batch["mask_ids"].flatten(), reduction="none")
        loss = (each * weights).sum() / weights.sum() + cross_entropy(following, batch["next_sentence_labels"])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), quality.CLIP_NORM)
        optimizer.step()

    def losses(batch: Mapping[str, torch.Tensor]) -> np.ndarray:
        model.eval()
        with torch.no_grad():
            masked, _ = masked_logits(model, batch)
            each = cross_entropy(masked, batch["mask_ids"].flatten(), reduction="none")
        model.train()
        return each.reshape(batch["mask_ids"].shape).numpy()

    quality.train(session, args, step, losses, convert)


if __name__ == "__main__":
    main()

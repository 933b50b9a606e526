"""Hugging Face's model in PyTorch, stock or with the masked positions gathered before the vocabulary projection.

Runs in an environment of its own; see `benchmarks.train_step`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

import torch
import transformers

from benchmarks.peers import batches
from benchmarks.peers.session import Session

# Label of the positions that the stock model's loss ignores.
_NO_LABEL = -100
Batch = Mapping[str, torch.Tensor]


def config_of(size: str) -> transformers.BertConfig:
    """Returns the configuration of a size, with the original's GELU."""
    shape = batches.config_of(size)
    return transformers.BertConfig(
        vocab_size=shape.vocabulary_size,
        hidden_size=shape.hidden_dim,
        num_hidden_layers=shape.num_layers,
        num_attention_heads=shape.num_heads,
        intermediate_size=shape.intermediate_dim,
        hidden_act="gelu_pytorch_tanh",
        hidden_dropout_prob=shape.dropout,
        attention_probs_dropout_prob=shape.dropout,
        max_position_embeddings=shape.max_sequence_length,
        type_vocab_size=shape.num_segments,
        layer_norm_eps=shape.layer_norm_epsilon,
        initializer_range=shape.initializer_range,
    )


def build_model(size: str) -> transformers.BertForPreTraining:
    """Builds the model."""
    return transformers.BertForPreTraining(config_of(size)).train()


def gathered_loss(model: transformers.BertForPreTraining, batch: Batch) -> torch.Tensor:
    """Computes the loss with the head at the masked positions only."""
    encoded = model.bert(batch["token_ids"], attention_mask=batch["padding_mask"], token_type_ids=batch["segment_ids"])
    hidden, positions = encoded.last_hidden_state, batch["mask_positions"].long()
    chosen = hidden.gather(1, positions[..., None].expand(-1, -1, hidden.shape[-1]))
    logits = model.cls.predictions(chosen).flatten(0, 1).float()
    weights = batch["mask_weights"].flatten()
    losses = torch.nn.functional.cross_entropy(logits, batch["mask_ids"].flatten().long(), reduction="none")
    next_sentence = model.cls.seq_relationship(encoded.pooler_output).float()
    return (losses * weights).sum() / weights.sum() + torch.nn.functional.cross_entropy(
        next_sentence, batch["next_sentence_labels"].long()
    )


def stock_loss(model: transformers.BertForPreTraining, batch: Batch) -> torch.Tensor:
    """Computes the loss with the model's own method, over all positions."""
    return model(
        batch["token_ids"],
        attention_mask=batch["padding_mask"],
        token_type_ids=batch["segment_ids"],
        labels=batch["labels"],
        next_sentence_label=batch["next_sentence_labels"].long(),
    ).loss


def all_batches() -> list[dict[str, torch.Tensor]]:
    """Returns the shared batches, with `labels` (B, S) for the stock model."""
    arrays = {name: torch.from_numpy(array) for name, array in batches.batches().items()}
    result = [dict(zip(arrays, values, strict=True)) for values in zip(*arrays.values(), strict=True)]
    for batch in result:
        rows, columns = torch.nonzero(batch["mask_weights"], as_tuple=True)
        labels = torch.full(batch["token_ids"].shape, _NO_LABEL)
        labels[rows, batch["mask_positions"][rows, columns].long()] = batch["mask_ids"][rows, columns].long()
        batch["labels"] = labels
    return result


def make_optimizer(model: torch.nn.Module) -> torch.optim.Optimizer:
    """Returns PyTorch's fused AdamW, without weight decay of biases and layer normalization."""
    vectors = [parameter for parameter in model.parameters() if parameter.ndim == 1]
    matrices = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    groups = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(
        groups, lr=batches.LEARNING_RATE, eps=batches.EPSILON, weight_decay=batches.WEIGHT_DECAY, fused=True
    )


def train(
    model: transformers.BertForPreTraining,
    loss_of: Callable[[transformers.BertForPreTraining, Batch], torch.Tensor],
    precision: str,
    session: Session,
) -> None:
    """Runs training steps until stdin is closed."""
    optimizer, everything, step = make_optimizer(model), all_batches(), 0
    while True:
        optimizer.zero_grad(set_to_none=True)
        half = precision == "bfloat16"
        with torch.autocast("cpu", torch.bfloat16) if half else contextlib.nullcontext():
            loss = loss_of(model, everything[step % len(everything)])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), batches.CLIP_NORM)
        optimizer.step()
        step += 1
        session.after_step(loss.item())


def main() -> None:
    """Trains until stdin is closed."""
    parser = batches.arguments(__doc__)
    parser.add_argument("--stock", action="store_true", help="vocabulary projection at all positions")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    session = Session()
    model = build_model(args.size)
    session.tell(parameters=sum(parameter.numel() for parameter in model.parameters()))
    train(model, stock_loss if args.stock else gathered_loss, args.precision, session)


if __name__ == "__main__":
    main()

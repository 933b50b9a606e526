"""Computes vectors of raw texts with Hugging Face's encoder in PyTorch and its fast tokenizer.

Runs in an environment of its own; see `benchmarks.serving`.
"""

from __future__ import annotations

import torch
import transformers

from benchmarks.peers import requests
from benchmarks.peers.huggingface import config_of
from benchmarks.peers.session import Session


class Vectors(torch.nn.Module):
    """The encoder with the mean of its last layer over all tokens.

    Args:
        size: name of the model size.
    """

    def __init__(self, size: str) -> None:
        super().__init__()
        self.bert = transformers.BertModel(config_of(size))

    def forward(
        self, input_ids: torch.Tensor, token_type_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the pooled and the mean output, float32 (B, H) each.

        Args:
            input_ids: int64 (B, S), like the tokenizer's output.
            token_type_ids: int64 (B, S).
            attention_mask: int64 (B, S).
        """
        encoded = self.bert(input_ids, token_type_ids=token_type_ids, attention_mask=attention_mask)
        mask = attention_mask[..., None].float()
        mean = (encoded.last_hidden_state.float() * mask).sum(dim=1) / mask.sum(dim=1)
        return encoded.pooler_output.float(), mean


def build_model(size: str) -> Vectors:
    """Builds the model with random weights."""
    torch.manual_seed(0)
    return Vectors(size).eval()


def main() -> None:
    """Runs requests until stdin is closed."""
    parser = requests.arguments(__doc__)
    parser.add_argument("--size", required=True, help="name of the model size")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    session = Session()
    tokenizer = transformers.BertTokenizerFast(vocab=str(args.requests / "vocab.txt"), do_lower_case=True)
    model = build_model(args.size).to(getattr(torch, args.precision))
    for texts in requests.batches_of(args):
        with torch.inference_mode():
            encoded = tokenizer(texts, padding=True, return_tensors="pt")
            pooled, mean = (vectors.numpy() for vectors in model(**encoded))
        session.tell(
            outputs={"pooled_output": list(pooled.shape), "mean_output": list(mean.shape)},
            tokens=encoded["input_ids"].shape[1],
        )
        session.after_step(units=args.batch_size)


if __name__ == "__main__":
    main()

"""Hugging Face's encoder in PyTorch, with its fast tokenizer: the vectors of raw texts.

It lives in an environment of its own, as the head of `benchmarks.serving` says.
"""

from __future__ import annotations

import torch
import transformers

from benchmarks.peers import requests
from benchmarks.peers.huggingface import config_of
from benchmarks.peers.session import Session


class Vectors(torch.nn.Module):
    """The encoder, and the mean of its last layer over all tokens.

    Args:
        size: of the model.
    """

    def __init__(self, size: str) -> None:
        super().__init__()
        self.bert = transformers.BertModel(config_of(size))

    def forward(
        self, input_ids: torch.Tensor, token_type_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns pooled and mean output, (B, H) float32 each.

        Args:
            input_ids, token_type_ids, attention_mask: (B, S) int64, as the tokenizer names them.
        """
        encoded = self.bert(input_ids, token_type_ids=token_type_ids, attention_mask=attention_mask)
        mask = attention_mask[..., None].float()
        mean = (encoded.last_hidden_state.float() * mask).sum(dim=1) / mask.sum(dim=1)
        return encoded.pooler_output.float(), mean


def build_model(size: str) -> Vectors:
    """Returns the model, its weights random."""
    torch.manual_seed(0)
    return Vectors(size).eval()


def main() -> None:
    """Answers until the line is closed."""
    parser = requests.arguments(__doc__)
    parser.add_argument("--size", required=True, help="of the model")
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

"""Exports Hugging Face's encoder to ONNX, for `benchmarks.peers.onnx_encoder`."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from benchmarks.peers.huggingface_encoder import build_model

INPUTS = ("input_ids", "token_type_ids", "attention_mask")


def main() -> None:
    """Writes the file."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--size", required=True, help="name of the model size")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    # Sizes must exceed 1, which the exporter would treat as a constant.
    example = tuple(torch.ones((2, 8), dtype=torch.int64) for _ in INPUTS)
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", max=512)
    torch.onnx.export(
        build_model(args.size),
        example,
        str(args.output),
        input_names=list(INPUTS),
        output_names=["pooled_output", "mean_output"],
        dynamic_shapes=tuple({0: batch, 1: length} for _ in INPUTS),
        dynamo=True,
    )


if __name__ == "__main__":
    main()

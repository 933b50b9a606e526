"""Computes vectors of raw texts with Hugging Face's encoder in onnxruntime and its fast tokenizer.

Runs in an environment of its own; see `benchmarks.serving`.
"""

from __future__ import annotations

from pathlib import Path

import onnxruntime
import transformers

from benchmarks.peers import requests
from benchmarks.peers.session import Session


def main() -> None:
    """Runs requests until stdin is closed."""
    parser = requests.arguments(__doc__)
    parser.add_argument("--model", type=Path, required=True, help="file of `onnx_export`")
    args = parser.parse_args()
    session = Session()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    model = onnxruntime.InferenceSession(str(args.model), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in model.get_outputs()]
    tokenizer = transformers.BertTokenizerFast(vocab=str(args.requests / "vocab.txt"), do_lower_case=True)
    for texts in requests.batches_of(args):
        encoded = dict(tokenizer(texts, padding=True, return_tensors="np"))
        outputs = dict(zip(names, model.run(names, encoded), strict=True))
        session.tell(
            outputs={name: list(vectors.shape) for name, vectors in outputs.items()},
            tokens=encoded["input_ids"].shape[1],
        )
        session.after_step(units=args.batch_size)


if __name__ == "__main__":
    main()

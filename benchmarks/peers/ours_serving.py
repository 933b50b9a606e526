"""Calls the `serving_default` signature of an exported encoder in this process, like a server."""

from __future__ import annotations

from pathlib import Path

from benchmarks.peers import requests
from benchmarks.peers.session import Session, limit_threads
from bert_tf.export.runtime import keep_packed_weights, prefer_onednn, register_text_operations

prefer_onednn()
import tensorflow as tf  # noqa: E402 (reads what comes before)


def main() -> None:
    """Runs requests until stdin is closed."""
    parser = requests.arguments(__doc__)
    parser.add_argument("--model", type=Path, required=True, help="folder of a version")
    parser.add_argument("--packed_weights", action="store_true", help="packed weights, as in `bert-tf serve`")
    args = parser.parse_args()
    if args.packed_weights:
        keep_packed_weights()
    limit_threads(args.threads)
    register_text_operations()
    session = Session()
    loaded = tf.saved_model.load(str(args.model))
    signature = loaded.signatures["serving_default"]
    for texts in requests.batches_of(args):
        outputs = {name: tensor.numpy() for name, tensor in signature(text=tf.constant(texts)).items()}
        session.tell(outputs={name: list(vectors.shape) for name, vectors in outputs.items()})
        session.after_step(units=args.batch_size)


if __name__ == "__main__":
    main()

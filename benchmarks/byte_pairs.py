"""`python -m benchmarks.byte_pairs --corpus FILES`: can TensorFlow's operations compute a byte-level BPE?

Trains a byte-level BPE on a tenth of the lines, and compares the ids of keras-hub's `BytePairTokenizer`, made of
TensorFlow operations and run in a graph, with those of the library `tokenizers`. Lines of the files are cut to 400
characters; random text of 13 scripts is added. Results on stdout, JSON in --output.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence

import keras_hub
import tensorflow as tf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from benchmarks import measure, texts

_LONGEST, _BATCH, _RANDOM_CHARACTERS = 400, 2000, 60
# Code points of ASCII, Latin, Greek to Hebrew, Arabic, Devanagari, Thai, Hangul, Japanese, Chinese, symbols, controls.
_SCRIPTS = ((0x20, 0x7E), (0xA0, 0x24F), (0x370, 0x5FF), (0x600, 0x6FF), (0x900, 0x97F), (0xE00, 0xE7F),
            (0x1100, 0x11FF), (0x3040, 0x30FF), (0x4E00, 0x4FFF), (0xAC00, 0xAD00), (0x1F300, 0x1F6FF),
            (0x2000, 0x206F), (0x0, 0x20))  # fmt: skip


def random_line(source: random.Random) -> str:
    """Returns text of two scripts, a fifth of it blanks."""
    scripts = source.choices(_SCRIPTS, k=2)
    return "".join(
        chr(source.randint(*source.choice(scripts))) if source.random() < 0.8 else " "
        for _ in range(source.randint(1, _RANDOM_CHARACTERS))
    )


def trained(lines: Sequence[str], size: int) -> Tokenizer:
    """Returns a byte-level BPE without normalization and special tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        lines, trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    )
    return tokenizer


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the comparison and reports it."""
    parser = measure.parser(__doc__)
    parser.add_argument("--corpus", required=True, help="comma-separated globs of .txt or .bz2 files")
    parser.add_argument("--lines", type=int, default=200_000, help="lines to compare; default: %(default)s")
    parser.add_argument("--random", type=float, default=0.3, help="share of random text; default: %(default)s")
    parser.add_argument("--vocabulary_size", type=int, default=16_000)
    args = parser.parse_args(arguments)
    source = random.Random(0)
    own = [
        line[:_LONGEST]
        for file in texts.files_of(args.corpus)
        for document in texts.documents_of(file)
        for line in document
    ]
    own = source.sample(own, min(len(own), round(args.lines * (1 - args.random))))
    lines = own + [random_line(source) for _ in range(args.lines - len(own))]
    peer = trained(lines[::10], args.vocabulary_size)
    model = json.loads(peer.to_str())["model"]
    merges = [" ".join(merge) for merge in model["merges"]]
    hub = keras_hub.tokenizers.BytePairTokenizer(vocabulary=model["vocab"], merges=merges)
    graph = tf.function(lambda batch: hub(batch), input_signature=[tf.TensorSpec([None], tf.string)])
    differing, seconds = [], {"tokenizers": 0.0, "keras_hub": 0.0}
    for begin in range(0, len(lines), _BATCH):
        batch = lines[begin : begin + _BATCH]
        began = time.perf_counter()
        expected = [encoding.ids for encoding in peer.encode_batch(batch)]
        seconds["tokenizers"] += time.perf_counter() - began
        began = time.perf_counter()
        found = graph(tf.constant(batch)).to_list()
        seconds["keras_hub"] += time.perf_counter() - began
        differing += [line for line, one, other in zip(batch, found, expected, strict=True) if one != other]
    at_end = sum(len(line) - len(line.rstrip()) > 1 for line in differing)
    result = {"lines": len(lines), "of_files": len(own), "differing": len(differing), "blanks_at_end": at_end} | seconds
    measure.heading("Byte-level BPE in a graph")
    for name, value in result.items():
        print(f"{name:>15}  {value:,.1f}" if isinstance(value, float) else f"{name:>15}  {value:,}")
    for line in differing[:5]:
        print(repr(line[-60:]))
    measure.save("byte_pairs", result | {"examples": differing[:20]}, args.output)


if __name__ == "__main__":
    main()

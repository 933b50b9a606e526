"""`python -m benchmarks.optimizers [--sizes tiny base ...]`: the time of an optimizer's step, and its share.

Measures forward and backward pass of 8 x 128 tokens and the step of each optimizer, medians of 5 interleaved
repetitions, with TensorFlow on this machine. From these times it computes Muon's share of a step for larger batches,
and for 8 devices that each hold an eighth of the batch: all of them orthogonalize all matrices, as here, or each an
eighth of them. Table on stdout, JSON in --output.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from benchmarks import measure
from benchmarks.step_row import Row, examples
from bert_tf.config import TrainingConfig
from bert_tf.config.model import NAMED_SIZES, SIZES
from bert_tf.models import BertBackbone, BertPretrainer
from bert_tf.optim.build import OPTIMIZERS, make_optimizer
from bert_tf.training.backends.tensorflow import TensorFlowTrainingModel
from bert_tf.training.losses import PRETRAINING
from bert_tf.training.malloc import tune_allocator

_ROWS, _LENGTH, _DEVICES = 8, 128, 8
# Tokens of a batch: 32 x 128, and 256 x 512, the paper's.
_BATCHES = (4_096, 131_072)


def seconds_of(size: str, repetitions: int) -> dict[str, float]:
    """Returns the median seconds of forward and backward pass (`backward`) and of the step of each optimizer."""
    row = Row(size, _LENGTH, _ROWS, precision="float32")
    model = BertPretrainer(BertBackbone(row.model))
    training = TensorFlowTrainingModel(model, PRETRAINING)
    training.compile(optimizer=make_optimizer(TrainingConfig(), 10, model.trainable_variables))
    inputs, targets, weights = ({name: tf.constant(values) for name, values in part.items()} for part in examples(row))

    @tf.function
    def gradients():
        return training._gradients(inputs, targets, weights, training.total_weights(targets, weights))[2]

    found = gradients()
    contestants = {"backward": gradients}
    for name in OPTIMIZERS:
        optimizer = make_optimizer(TrainingConfig(optimizer=name, learning_rate=1e-6), 10, model.trainable_variables)
        contestants[name] = tf.function(lambda optimizer=optimizer: optimizer.apply(found))
    return {name: 1 / rate for name, rate in measure.rates(contestants, 1.0, repetitions).items()}


def share(seconds: dict[str, float], tokens: float, matrices: float = 1.0) -> float:
    """Returns the share of a part of Muon's step in a step of so many tokens on a device."""
    step = seconds["muon"] * matrices
    return step / (step + seconds["backward"] * tokens / (_ROWS * _LENGTH))


def table(results: dict[str, dict[str, float]]) -> str:
    """Returns the Markdown table of all sizes."""
    names = list(OPTIMIZERS)
    small, large = _BATCHES
    shares_of = [f"share of muon at {small:,} tokens", f"at {large:,} tokens", f"on {_DEVICES} devices", "divided"]
    header = ["size", "forward and backward, ms", *(f"{name}, ms" for name in names), *shares_of]
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    for size, seconds in results.items():
        shares = [share(seconds, small), share(seconds, large), share(seconds, large / _DEVICES)]
        shares.append(share(seconds, large / _DEVICES, 1 / _DEVICES))
        times = [f"{1e3 * seconds[name]:,.1f}" for name in ("backward", *names)]
        lines.append("| " + " | ".join([size, *times, *(f"{part:.1%}" for part in shares)]) + " |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures the sizes, and prints the table."""
    parser = measure.parser(__doc__)
    parser.add_argument(
        "--sizes", nargs="+", choices=sorted(SIZES), default=tuple(NAMED_SIZES), help="default: %(default)s"
    )
    parser.add_argument("--repetitions", type=int, default=measure.REPETITIONS, help="default: %(default)s")
    args = parser.parse_args(arguments)
    tune_allocator()
    results = {size: seconds_of(size, args.repetitions) for size in args.sizes}
    measure.heading(f"Steps of optimizers (medians of {args.repetitions})")
    print(table(results))
    measure.save("optimizers", {"repetitions": args.repetitions, "seconds": results}, args.output)


if __name__ == "__main__":
    main()

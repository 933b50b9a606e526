"""`python -m benchmarks.finetuning_rates --preset RUN --task sst2 --data SST-2`: accuracy by the learning rate.

Fine-tunes a classifier with `compile` and `fit` for every rate and seed, in batches of 32 rows, and prints a table of
the accuracies on the development set. `--rows` takes a sample of the training rows, the same for all runs. With
`TF_NUM_INTRAOP_THREADS=1` the results do not depend on the number of cores.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

import bert_tf
from benchmarks import measure
from bert_tf.tasks.input_errors import InputErrors

RATES = (3e-5, 1.8e-4, 6e-4, 1e-3, 2e-3)
TASKS = ("sst2", "mrpc")
_BATCH = 32


def read(task: str, path: Path) -> tuple[Any, np.ndarray]:
    """Returns texts, or pairs of texts, and the numbers of their labels."""
    examples = list(bert_tf.task_class(task)().read(path, InputErrors()))
    labels = sorted({example.label for example in examples})
    columns = tuple(np.array(column) for column in zip(*(example.texts for example in examples), strict=True))
    return columns if len(columns) > 1 else columns[0], np.array([labels.index(e.label) for e in examples])


def sampled(texts: Any, labels: np.ndarray, rows: int) -> tuple[Any, np.ndarray]:
    """Returns a sample of the rows; all for 0."""
    if not rows:
        return texts, labels
    chosen = random.Random(0).sample(range(len(labels)), rows)
    return tuple(t[chosen] for t in texts) if isinstance(texts, tuple) else texts[chosen], labels[chosen]


def accuracies(preset: Path, train: Any, dev: Any, rate: float, seeds: Sequence[int], epochs: int) -> list[float]:
    """Returns the accuracy on the development set with each seed."""
    found = []
    for seed in seeds:
        keras.backend.clear_session()
        keras.utils.set_random_seed(seed)
        model = bert_tf.BertTextClassifier.from_preset(preset, num_classes=2)
        model.compile(learning_rate=rate)
        model.fit(*train, batch_size=_BATCH, epochs=epochs, verbose=0)
        found.append(float(model.evaluate(*dev, batch_size=2 * _BATCH, verbose=0, return_dict=True)["accuracy"]))
    return found


def main() -> None:
    """Runs all rates and prints the table."""
    parser = measure.parser(__doc__)
    parser.add_argument("--preset", type=Path, required=True, help="pre-trained preset")
    parser.add_argument("--task", choices=TASKS, required=True)
    parser.add_argument("--data", type=Path, required=True, help="directory with train.tsv and dev.tsv of GLUE")
    parser.add_argument("--rows", type=int, default=0, help="training rows; default: all")
    parser.add_argument("--rates", type=float, nargs="+", default=RATES)
    parser.add_argument("--seeds", type=int, nargs="+", default=(1, 2))
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    train = sampled(*read(args.task, args.data / "train.tsv"), args.rows)
    dev = read(args.task, args.data / "dev.tsv")
    print(f"| learning rate | {args.task}, {len(train[1]):,} rows | each seed |\n|---|---|---|")
    for rate in args.rates:
        found = [100 * value for value in accuracies(args.preset, train, dev, rate, args.seeds, args.epochs)]
        print(f"| {rate:g} | {statistics.fmean(found):.1f} | {', '.join(f'{v:.1f}' for v in found)} |", flush=True)


if __name__ == "__main__":
    main()

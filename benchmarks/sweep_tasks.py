"""`python -m benchmarks.sweep_tasks`: pre-trained encoders and random weights, fine-tuned at many rates at once.

    python -m benchmarks.sweep_tasks pack FINETUNE_DATA tasks.npz --vocabulary vocab.txt
    KERAS_BACKEND=jax python -m benchmarks.sweep_tasks run tasks.npz runs/sweep/mini-*.npz --output runs/tasks
    python -m benchmarks.sweep_tasks score FINETUNE_DATA runs/tasks --vocabulary vocab.txt

`pack` encodes the examples of `TASKS` as `bert-tf finetune` does. `run` trains each task with every rate and encoder as
one program, on one accelerator: the encoders that `benchmarks.sweep` wrote, and as many with random weights. `score`
chooses a rate for each of both by the mean result on examples that are not reported, and prints the results on the
reported ones, for each seed. The model, the loss, the optimizer and the metrics are those of `bert-tf finetune`.

    task      trained on                   rate chosen on         reported
    SST-2     train without 2,000 rows     these 2,000 rows       dev
    MRPC      train without a tenth        that tenth             dev
    STS-B     train without a tenth        that tenth             dev
    SICK      eight tenths                 a tenth                a tenth, all by the number of the pair
    WikiANN   train                        dev                    test
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import measure
from benchmarks.sweep import linear_schedule
from bert_tf.config import BertConfig, TrainingConfig
from bert_tf.data.schema import PADDING_MASK, SEGMENT_IDS, SINGLE_OUTPUT, TOKEN_IDS
from bert_tf.training.losses import CLASSIFICATION, REGRESSION

RATES = (1e-4, 2.5e-4, 6e-4, 1.5e-3)
# Rate of Muon's matrices in units of the other rate.
_MATRICES = 3.0
PARTS = ("train", "tune", "test")
_BATCH, _EVALUATED = 32, 256


@dataclass(frozen=True)
class SweptTask:
    """A task of the comparison.

    Args:
        name: name in files and tables.
        task: name of the task of `bert-tf finetune`.
        width: tokens of a row.
        steps: training steps of `_BATCH` rows.
        classes: number of classes; 1 for regression, 0 for a class of each token.
        metrics: reported metrics; the first one chooses the rate.
    """

    name: str
    task: str
    width: int
    steps: int
    classes: int
    metrics: tuple[str, ...]


TASKS = (
    SweptTask("SST-2", "sst2", 48, 2000, 2, ("accuracy",)),
    SweptTask("MRPC", "mrpc", 96, 500, 2, ("accuracy", "f1")),
    SweptTask("STS-B", "stsb", 64, 800, 1, ("pearson", "spearman")),
    SweptTask("SICK", "classify", 48, 900, 3, ("accuracy",)),
    SweptTask("WikiANN", "ner", 64, 1600, 0, ("f1",)),
)


def examples_of(swept: SweptTask, data: Path) -> tuple[Any, dict[str, list[Any]]]:
    """Returns the task with its labels, and the examples of each part."""
    import bert_tf
    from bert_tf.tasks.input_errors import InputErrors

    options = {"text_names": ("sentence_A", "sentence_B"), "label_column": "entailment_judgment"}
    task = bert_tf.task_class(swept.task)(**(options if swept.name == "SICK" else {}))

    def read(*names: str) -> list[Any]:
        return list(task.read(data.joinpath(*names), InputErrors()))

    if swept.name == "WikiANN":
        parts = {
            part: read("ner", "wikiann_en", name) for part, name in zip(PARTS, ("train", "dev", "test"), strict=True)
        }
    elif swept.name == "SICK":
        # A TSV by content, not by name.
        with tempfile.TemporaryDirectory() as folder:
            copied = shutil.copy(data / "sick" / "SICK.txt", Path(folder, "SICK.tsv"))
            rows = list(task.read(Path(copied), InputErrors()))
        tenths = [number % 10 for number in range(len(rows))]
        chosen: list[Callable[[int], bool]] = [
            lambda tenth: tenth < 8,
            lambda tenth: tenth == 8,
            lambda tenth: tenth == 9,
        ]
        parts = {
            part: [row for row, tenth in zip(rows, tenths, strict=True) if is_in(tenth)]
            for part, is_in in zip(PARTS, chosen, strict=True)
        }
    else:
        rows = read("glue", swept.name, "train.tsv")
        every = len(rows) // 2000 if swept.name == "SST-2" else 10
        parts = {
            "train": [row for number, row in enumerate(rows) if number % every],
            "tune": rows[::every],
            "test": read("glue", swept.name, "dev.tsv"),
        }
    return task.fit_labels(parts["train"]), parts


def encoded(swept: SweptTask, data: Path, vocabulary: Path) -> tuple[Any, dict[str, list[Any]], dict[str, Any]]:
    """Returns the task, its examples and their rows."""
    from bert_tf.text.byte_pairs import tokenizer_of
    from bert_tf.text.vocabulary import load_vocabulary

    task, parts = examples_of(swept, data)
    tokenizer = tokenizer_of(load_vocabulary(vocabulary), lowercase=True)
    return task, parts, {part: task.encode(rows, tokenizer, swept.width) for part, rows in parts.items()}


def pack(data: Path, path: Path, vocabulary: Path) -> None:
    """Writes the rows of all tasks to an `.npz`."""
    arrays: dict[str, np.ndarray] = {}
    for swept in TASKS:
        _, _, rows = encoded(swept, data, vocabulary)
        for part, own in rows.items():
            numbers = np.arange(len(own))
            inputs = own.inputs(numbers, swept.width)
            targets, weights = own.targets[SINGLE_OUTPUT], own.weights.get(SINGLE_OUTPUT)
            if own.is_by_token(SINGLE_OUTPUT):
                place, mask = own.places(numbers, swept.width)
                targets, weights = targets[place] * mask, weights[place] * mask
            weights = np.ones(len(own), np.float32) if weights is None else weights
            values = {
                TOKEN_IDS: inputs[TOKEN_IDS].astype(np.uint16),
                SEGMENT_IDS: inputs[SEGMENT_IDS].astype(np.uint8),
                PADDING_MASK: inputs[PADDING_MASK].astype(np.uint8),
                "targets": targets.astype(np.float32 if swept.classes == 1 else np.uint8),
                "weights": weights.astype(np.float16),
            }
            arrays |= {f"{swept.name}/{part}/{name}": value for name, value in values.items()}
            print(f"{swept.name} {part}: {len(own):,} rows")
    np.savez_compressed(path, **arrays)


def train(
    swept: SweptTask,
    arrays: Mapping[str, np.ndarray],
    encoders: Sequence[Path],
    model: str,
    optimizer_name: str,
    rates: Sequence[float],
    output: Path,
) -> None:
    """Trains a task with all rates and encoders, and writes the outputs for the rows that are not trained on."""
    import jax
    import jax.numpy as jnp
    import keras

    from bert_tf.layers.computation import set_computation
    from bert_tf.models import BertBackbone, BertTextClassifier, BertTokenClassifier
    from bert_tf.optim.build import make_optimizer
    from bert_tf.training.backends import precision_scope
    from bert_tf.training.losses import TrainingModel

    weights_of = [dict(np.load(path)) for path in encoders]
    vocabulary_size = weights_of[0]["embeddings/token_embedding/embeddings"].shape[0]
    config = BertConfig.from_size(
        model, vocabulary_size=vocabulary_size, positions="rotary", dropout=0.0, max_sequence_length=128,
        pooler=swept.classes > 0,
    )  # fmt: skip
    training = TrainingConfig(
        steps=swept.steps, batch_size=_BATCH, precision="bfloat16", optimizer=optimizer_name, learning_rate=rates[0],
        matrix_learning_rate=_MATRICES * rates[0], matrix_momentum=0.9,
    )  # fmt: skip
    tags = int(arrays[f"{swept.name}/train/targets"].max()) + 1
    initial, seeds = [], []
    for number, source in enumerate([*weights_of, *({} for _ in weights_of)]):
        seed = 1 + number % len(weights_of)
        keras.utils.set_random_seed(seed)
        with precision_scope(training):
            backbone = BertBackbone(config)
            net = BertTextClassifier(backbone, swept.classes) if swept.classes else BertTokenClassifier(backbone, tags)
        values = [source.get(v.path, np.asarray(v)).astype(np.float32) for v in net.trainable_variables]
        found = sum(v.path in source for v in net.trainable_variables)
        print(f"{swept.name}: {found} of {len(values)} variables are pre-trained", flush=True)
        initial.append(values)
        seeds.append(seed)
    set_computation(net, attention_kernel="plain")
    runner = TrainingModel(net, REGRESSION if swept.classes == 1 else CLASSIFICATION)
    optimizer = make_optimizer(training, swept.steps, net.trainable_variables)
    runs = [(number, rate) for number in range(len(initial)) for rate in rates]
    weights = [jnp.asarray(np.stack([initial[number][i] for number, _ in runs])) for i in range(len(initial[0]))]
    others = []
    for variable in net.non_trainable_variables:
        stacked = np.stack([np.asarray(variable.value)] * len(runs))
        # States of the generators of dropout, one for each seed.
        others.append(jnp.asarray(stacked + np.array([seeds[n] for n, _ in runs], stacked.dtype)[:, None]))
    moments = [jnp.stack([variable.value] * len(runs)) for variable in optimizer.variables]
    parts = {
        part: {
            name: jnp.asarray(arrays[f"{swept.name}/{part}/{name}"])
            for name in (TOKEN_IDS, SEGMENT_IDS, PADDING_MASK, "targets", "weights")
        }
        for part in PARTS
    }
    rows = parts["train"]
    count = len(rows[TOKEN_IDS])
    orders = jnp.asarray(
        np.stack([np.random.default_rng(seed).permutation(count) for seed in range(1, 1 + len(encoders))])
    )

    def inputs_of(values: Mapping[str, Any], numbers: Any) -> dict[str, Any]:
        return {name: values[name][numbers].astype(jnp.int32) for name in (TOKEN_IDS, SEGMENT_IDS, PADDING_MASK)}

    def step(rate: Any, order: Any, state: Any, number: Any) -> Any:
        weights, others, moments = state
        numbers = order[(number * _BATCH + jnp.arange(_BATCH)) % count]
        targets = rows["targets"][numbers]
        targets = targets if swept.classes == 1 else targets.astype(jnp.int32)
        weight = rows["weights"][numbers].astype(jnp.float32)

        def loss(weights: Any) -> Any:
            logits, after = net.stateless_call(weights, others, inputs_of(rows, numbers), training=True)
            sums = runner.weighted_sums(targets, logits, weight)
            return runner.share_of(sums, runner.total_weights(targets, weight)), after

        gradients, others = jax.grad(loss, has_aux=True)(weights)
        optimizer._learning_rate = linear_schedule(rate, 0.1, 0.9, swept.steps)
        weights, moments = optimizer.stateless_apply(moments, gradients, weights)
        return weights, others, moments

    @jax.jit
    def trained(state: Any) -> Any:
        own_rates, own = jnp.array([rate for _, rate in runs]), orders[jnp.array([seeds[n] - 1 for n, _ in runs])]
        each = jax.vmap(step, in_axes=(0, 0, 0, None))
        return jax.lax.fori_loop(0, swept.steps, lambda number, now: each(own_rates, own, now, number), state)

    @jax.jit
    def outputs(weights: Any, others: Any, values: Any, numbers: Any) -> Any:
        def of_run(weights: Any, others: Any) -> Any:
            logits, _ = net.stateless_call(weights, others, inputs_of(values, numbers), training=False)
            return logits.astype(jnp.float32) if swept.classes == 1 else jnp.argmax(logits, -1).astype(jnp.uint8)

        return jax.vmap(of_run)(weights, others)

    began = time.perf_counter()
    state = jax.block_until_ready(trained((weights, others, moments)))
    results = {}
    for part in PARTS[1:]:
        size = len(parts[part][TOKEN_IDS])
        blocks = [np.arange(first, min(first + _EVALUATED, size)) for first in range(0, size, _EVALUATED)]
        # The last block has rows of the one before, so that all have one shape.
        blocks = [np.arange(max(0, block[-1] + 1 - _EVALUATED), block[-1] + 1) for block in blocks]
        found = [np.asarray(outputs(*state[:2], parts[part], jnp.asarray(block))) for block in blocks]
        whole = np.zeros((len(runs), size, *found[0].shape[2:]), found[0].dtype)
        for block, values in zip(blocks, found, strict=True):
            whole[:, block] = values
        results[part] = whole
    print(f"{swept.name}: {swept.steps} steps of {len(runs)} runs, {time.perf_counter() - began:.0f} s", flush=True)
    np.savez_compressed(
        output / f"{swept.name}.npz", rates=[r for _, r in runs], encoders=[n for n, _ in runs], **results
    )


def results(swept: SweptTask, data: Path, folder: Path, vocabulary: Path) -> dict[str, dict[str, Any]]:
    """Returns the results of a task: for `pre-trained` and `random`, the chosen rate and the metrics of each seed."""
    task, parts, rows = encoded(swept, data, vocabulary)
    with np.load(folder / f"{swept.name}.npz") as saved:
        rates, encoders, outputs = saved["rates"], saved["encoders"], {part: saved[part] for part in PARTS[1:]}

    def metrics_of(part: str, run: int) -> dict[str, float]:
        values, own = outputs[part][run], rows[part]
        if swept.classes != 1:
            values = np.eye(max(swept.classes, len(task.labels)), dtype=np.float32)[values]
        if own.is_by_token(SINGLE_OUTPUT):
            _, mask = own.places(np.arange(len(own)), swept.width)
            values = values[mask]
        answers = task.answers(parts[part], own, {SINGLE_OUTPUT: values})
        return task.score(parts[part], answers)

    found = {}
    half = (max(encoders) + 1) // 2
    for name, own in (("pre-trained", encoders < half), ("random", encoders >= half)):
        means = {
            rate: statistics.fmean(
                metrics_of("tune", run)[swept.metrics[0]] for run in np.flatnonzero(own & (rates == rate))
            )
            for rate in sorted(set(rates.tolist()))
        }
        best = max(means, key=lambda rate: means[rate])
        scores = [metrics_of("test", run) for run in np.flatnonzero(own & (rates == best))]
        found[name] = {"rate": best, "tuned": means, "scores": scores}
    return found


def table(swept: SweptTask, found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yields the lines of a task in the table of results."""
    for metric in swept.metrics:
        cells = []
        for result in found.values():
            scores = [100 * score[metric] for score in result["scores"]]
            each = ", ".join(f"{score:.1f}" for score in scores)
            cells.append(f"{statistics.fmean(scores):.1f} ({each}) | {result['rate']:g}")
        yield f"| {swept.name} | {metric} | {' | '.join(cells)} |"


def main() -> None:
    """Packs, trains or scores the tasks."""
    parser = measure.parser(__doc__, output="runs/tasks")
    actions = parser.add_subparsers(dest="action", required=True)
    packing, running, scoring = (actions.add_parser(name) for name in ("pack", "run", "score"))
    for action in (packing, scoring):
        action.add_argument("data", type=Path, help="folder with glue, sick and ner")
        action.add_argument("target", type=Path, help="file of rows of `pack`, results of `run`")
        action.add_argument("--vocabulary", type=Path, required=True)
    running.add_argument("rows", type=Path, help="file of `pack`")
    running.add_argument("encoders", type=Path, nargs="+", help="weights that `benchmarks.sweep` wrote")
    running.add_argument("--model", default="mini", help="size of the encoders; default: %(default)s")
    running.add_argument("--output", type=Path, default=argparse.SUPPRESS)
    optimizer = f"matrices of muon have {_MATRICES:g} times the rate; default: %(default)s"
    running.add_argument("--optimizer", choices=("adamw", "muon"), default="adamw", help=optimizer)
    running.add_argument("--rates", type=float, nargs="+", default=RATES, help="learning rates")
    running.add_argument("--tasks", nargs="+", choices=[swept.name for swept in TASKS], help="default: all")
    args = parser.parse_args()
    if args.action == "pack":
        pack(args.data, args.target, args.vocabulary)
    elif args.action == "run":
        args.output.mkdir(parents=True, exist_ok=True)
        with np.load(args.rows) as arrays:
            for swept in TASKS:
                if args.tasks is None or swept.name in args.tasks:
                    train(swept, arrays, args.encoders, args.model, args.optimizer, args.rates, args.output)
    else:
        print(
            "| task | metric | pre-trained (each seed) | rate | random weights (each seed) | rate |\n"
            "|---|---|---|---|---|---|"
        )
        for swept in TASKS:
            if (args.target / f"{swept.name}.npz").exists():
                print("\n".join(table(swept, results(swept, args.data, args.target, args.vocabulary))), flush=True)


if __name__ == "__main__":
    main()

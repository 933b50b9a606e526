"""`python -m benchmarks.sweep`: many short pre-training runs at once on one accelerator, for the choice of settings.

    python -m benchmarks.sweep pack DATA examples.npz
    KERAS_BACKEND=jax python -m benchmarks.sweep run examples.npz plan.json --output runs/sweep

`pack` writes the examples of a data directory of dynamic masks to one file. `run` trains every setting of a plan. A
plan is a list of groups; the settings of a group have one model, batch size and number of steps, and are trained
together, as one program over all of them (`jax.vmap`), with the model, losses and optimizer of `bert-tf pretrain`:

    [{"name": "rates", "model": "tiny", "fields": {"positions": "rotary"}, "steps": 1000, "batch_size": 64,
      "settings": [{}, {"seed": 2}, {"learning_rate": 0.002}]}]

A setting has fields of `Setting`. Each result is a line of `sweep.jsonl`: the setting, and perplexity and accuracy of
the held-out masked words at each evaluation. Masks are drawn on the device, from another random generator than those of
`pretrain`; the held-out masks are those of `pretrain`. `run` needs only jax, keras, numpy and this repository.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import measure
from bert_tf.config import BertConfig, TrainingConfig
from bert_tf.data.schema import MASK_POSITIONS, MLM_LOGITS, NSP_LOGITS, PADDING_MASK, SEGMENT_IDS, TOKEN_IDS

_RECORDS = 8192


@dataclass(frozen=True)
class Setting:
    """The settings of one run that may differ within a group. Defaults are those of the recipe `laptop` of 2026-11-26.

    Args:
        seed: seed of the initial weights, the order of the examples and the masks.
        learning_rate: highest rate of AdamW.
        matrix_learning_rate: highest rate of Muon's matrices.
        embedding_rate: factor of the rate of the word embeddings.
        beta_1: `training.adam_beta_1`.
        beta_2: `training.adam_beta_2`.
        momentum: `training.matrix_momentum`.
        nsp_weight: `training.nsp_weight`.
        warmup: share of the steps before the highest rate.
        decay: share of the steps, at the end, in which the rate falls; 1 minus `warmup` is the schedule `linear`.
        masked: share of the tokens to predict in the first step.
        masked_last: the same in the last step; it changes linearly.
        first_rows: examples of a step in the first part of the run; they double until the batch size, and each size
            takes as many steps, as `training.batch_size` = first:last.
        embedding_scale: factor of the initial word embeddings.
        matrix_scale: factor of the initial kernels.
    """

    seed: int = 1
    learning_rate: float = 3e-3
    matrix_learning_rate: float = 8.8e-3
    embedding_rate: float = 1.0
    beta_1: float = 0.9
    beta_2: float = 0.98
    momentum: float = 0.95
    nsp_weight: float = 1.0
    warmup: float = 0.1
    decay: float = 0.9
    masked: float = 0.15
    masked_last: float = 0.15
    first_rows: float = math.inf
    embedding_scale: float = 1.0
    matrix_scale: float = 1.0


@dataclass(frozen=True)
class Group:
    """Settings that are trained together.

    Args:
        name: name of the group in the results.
        model: size of the model.
        settings: the settings of each run.
        fields: other fields of the model.
        training: fields of the training that all runs share, such as `weight_decay`.
        steps: steps of a run.
        batch_size: examples of a step.
        evaluations: evaluations of a run, at equal distances; the last one after all steps.
        held_out: examples of an evaluation.
        keep: whether to write the weights at the end to `NAME-NUMBER.npz`, in float16.
    """

    name: str
    model: str
    settings: Sequence[Setting]
    fields: Mapping[str, Any]
    training: Mapping[str, Any]
    steps: int
    batch_size: int = 64
    evaluations: int = 4
    held_out: int = 1280
    keep: bool = False

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Group:
        """Returns the group of a plan."""
        settings = [Setting(**setting) for setting in values.get("settings", [{}])]
        empty: dict[str, Any] = {"fields": {}, "training": {}}
        return cls(**(empty | dict(values) | {"settings": settings}))


def pack(data: Path, path: Path) -> None:
    """Writes the examples of a data directory to an `.npz`: tokens without masks, and the masked held-out ones."""
    from bert_tf.data.input.dataset import EVALUATION_SEED, BatchOptions, Split
    from bert_tf.data.input.numpy import RecordOrder, pretraining_batches
    from bert_tf.data.tfrecord.example_reader import decode_examples

    options = BatchOptions(batch_size=_RECORDS, seed=EVALUATION_SEED)
    source = Split.open(data, "train", options)
    tokens, lengths, labels = [], [], []
    names = ["input_ids", "segment_lengths", "next_sentence_labels"]
    for records, _ in RecordOrder(source).in_file_order(_RECORDS):
        columns = decode_examples(records, names)
        tokens.append(columns["input_ids"].values.astype(np.uint16))
        lengths.append(columns["segment_lengths"].values.reshape(-1, 2).astype(np.uint16))
        labels.append(columns["next_sentence_labels"].values.astype(np.uint8))
    held_out: dict[str, list[np.ndarray]] = {}
    for inputs, targets, weights in pretraining_batches(
        data, "validation", batch_size=64, seed=EVALUATION_SEED, training=False
    ):
        named = inputs | {f"target_{name}": value for name, value in targets.items()}
        named |= {f"weight_{name}": value for name, value in weights.items()}
        for name, value in named.items():
            held_out.setdefault(name, []).append(value)
    special = [source.vocabulary.cls_id, source.vocabulary.sep_id, source.vocabulary.mask_id]
    np.savez(
        path,
        tokens=np.concatenate(tokens),
        lengths=np.concatenate(lengths),
        labels=np.concatenate(labels),
        vocabulary=np.array([len(source.vocabulary), source.config.max_seq_length, *special]),
        **{f"held_out_{name}": np.concatenate(values) for name, values in held_out.items()},
    )


class Examples:
    """The examples of a file of `pack` on the device.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        import jax.numpy as jnp

        with np.load(path) as arrays:
            values = dict(arrays)
        self.vocabulary_size, self.length, self.cls_id, self.sep_id, self.mask_id = values["vocabulary"].tolist()
        sizes = values["lengths"].astype(np.int64).sum(axis=1)
        rows = np.zeros((len(sizes), self.length), np.uint16)
        rows[np.arange(self.length) < sizes[:, None]] = values["tokens"]
        self.tokens, self.lengths = jnp.asarray(rows), jnp.asarray(values["lengths"])
        self.labels = jnp.asarray(values["labels"])
        self.held_out = {
            name.removeprefix("held_out_"): value for name, value in values.items() if name.startswith("held_out_")
        }

    def batch(self, numbers: Any, key: Any, share: Any, predictions: int) -> tuple[dict[str, Any], Any, Any, Any]:
        """Returns the inputs of examples, the masked words (B, P), their weights, and the next sentence labels (B,).

        Args:
            numbers: numbers of the examples, (B,).
            key: random key of the masks.
            share: share of the tokens to predict.
            predictions: most predictions of an example, P.
        """
        import jax
        import jax.numpy as jnp

        ids = self.tokens[numbers].astype(jnp.int32)
        first, second = jnp.moveaxis(self.lengths[numbers].astype(jnp.int32), 1, 0)
        position = jnp.arange(self.length)
        size = (first + second)[:, None]
        is_word = (position < size) & (ids != self.cls_id) & (ids != self.sep_id)
        draw, kind, other = jax.random.split(key, 3)
        order = jnp.where(is_word, jax.random.uniform(draw, ids.shape), 2.0)
        positions = jnp.argsort(order, axis=1)[:, :predictions]
        counts = jnp.clip(jnp.round(share * size[:, 0]), 1, predictions)
        weights = (jnp.arange(predictions) < counts[:, None]).astype(jnp.float32)
        words = jnp.take_along_axis(ids, positions, axis=1)
        chance = jax.random.uniform(kind, words.shape)
        random = jax.random.randint(other, words.shape, 5, self.vocabulary_size)
        shown = jnp.where(chance < 0.8, self.mask_id, jnp.where(chance < 0.9, random, words))
        shown = jnp.where(weights > 0, shown, words)
        rows = jnp.arange(len(numbers))[:, None]
        inputs = {
            TOKEN_IDS: ids.at[rows, positions].set(shown),
            SEGMENT_IDS: ((position >= first[:, None]) & (position < size)).astype(jnp.int32),
            PADDING_MASK: (position < size).astype(jnp.int32),
            MASK_POSITIONS: positions,
        }
        return inputs, words, weights, self.labels[numbers].astype(jnp.int32)


class Sweep:
    """The runs of a group: their model, their optimizer, and the state of all of them.

    Args:
        group: the group.
        examples: the data.
    """

    def __init__(self, group: Group, examples: Examples) -> None:
        import keras

        from bert_tf.layers.computation import set_computation
        from bert_tf.models import BertBackbone, BertPretrainer
        from bert_tf.optim.build import make_optimizer
        from bert_tf.training.backends import precision_scope

        self.group, self.examples = group, examples
        shares = [share for setting in group.settings for share in (setting.masked, setting.masked_last)]
        self.predictions = math.ceil(max(shares) * examples.length)
        size = {"vocabulary_size": examples.vocabulary_size, "max_sequence_length": examples.length, "dropout": 0.0}
        model_config = BertConfig.from_size(group.model, **(size | dict(group.fields)))
        config = TrainingConfig(steps=group.steps, batch_size=group.batch_size, optimizer="muon", **group.training)
        initial: dict[int, list[np.ndarray]] = {}
        for seed in sorted({setting.seed for setting in group.settings}, reverse=True):
            keras.utils.set_random_seed(seed)
            with precision_scope(config):
                self.model = BertPretrainer(BertBackbone(model_config))
            initial[seed] = [np.asarray(variable) for variable in self.model.trainable_variables]
        # The fused kernel is not for several models at once.
        set_computation(self.model, attention_kernel="plain")
        self.optimizer = make_optimizer(config, group.steps, self.model.trainable_variables)
        self.matrices = self.optimizer.matrix_axes
        self.initial = [self._scaled(initial[setting.seed], setting) for setting in group.settings]

    def _scaled(self, values: Sequence[np.ndarray], setting: Setting) -> list[np.ndarray]:
        factors = [
            setting.embedding_scale if self._is_embedding(variable) else setting.matrix_scale if axes else 1.0
            for variable, axes in zip(self.model.trainable_variables, self.matrices, strict=True)
        ]
        return [value * np.float32(factor) for value, factor in zip(values, factors, strict=True)]

    @staticmethod
    def _is_embedding(variable: Any) -> bool:
        return "token_embedding" in variable.path

    def state(self) -> Any:
        """Returns the state of all runs before the first step; the first axis of each array is that of the runs."""
        import jax
        import jax.numpy as jnp

        count = len(self.group.settings)
        weights = [jnp.asarray(np.stack(values)) for values in zip(*self.initial, strict=True)]
        others = [jnp.stack([variable.value] * count) for variable in self.model.non_trainable_variables]
        moments = [jnp.stack([variable.value] * count) for variable in self.optimizer.variables]
        keys = jax.vmap(jax.random.key)(jnp.array([setting.seed for setting in self.group.settings]))
        return weights, others, moments, keys

    def settings(self) -> dict[str, Any]:
        """Returns the fields of all settings: arrays (number of runs,)."""
        import jax.numpy as jnp

        rows = [asdict(setting) for setting in self.group.settings]
        return {name: jnp.array([row[name] for row in rows]) for name in rows[0]}

    def step(self, setting: Mapping[str, Any], state: Any, number: Any, order: Any) -> Any:
        """Returns the state of one run after another step.

        Args:
            setting: fields of `Setting`, scalars.
            state: the state before.
            number: number of finished steps.
            order: a permutation of the examples; a run begins at a place of its seed.
        """
        import jax
        import jax.numpy as jnp

        from bert_tf.training.losses import cross_entropy

        weights, others, moments, key = state
        size, count = self.group.batch_size, len(order)
        numbers = order[(setting["seed"] * 104_729 + number * size + jnp.arange(size)) % count]
        progress = number / self.group.steps
        share = setting["masked"] + (setting["masked_last"] - setting["masked"]) * progress
        inputs, words, counted, labels = self.examples.batch(
            numbers, jax.random.fold_in(key, number), share, self.predictions
        )
        kept = (jnp.arange(size) < self._rows(setting, progress)).astype(jnp.float32)
        counted = counted * kept[:, None]

        def loss(weights: Any) -> Any:
            outputs, after = self.model.stateless_call(weights, others, inputs, training=True)
            masked = jnp.sum(cross_entropy(words, outputs[MLM_LOGITS]) * counted) / jnp.sum(counted)
            following = jnp.sum(cross_entropy(labels, outputs[NSP_LOGITS]) * kept) / jnp.sum(kept)
            return masked + setting["nsp_weight"] * following, after

        gradients, others = jax.grad(loss, has_aux=True)(weights)
        self._take(setting)
        weights, moments = self.optimizer.stateless_apply(moments, gradients, weights)
        return weights, others, moments, key

    def _rows(self, setting: Mapping[str, Any], progress: Any) -> Any:
        import jax.numpy as jnp

        first = jnp.minimum(setting["first_rows"], self.group.batch_size)
        sizes = 1 + jnp.round(jnp.log2(self.group.batch_size / first))
        return first * 2.0 ** jnp.floor(progress * sizes)

    def _take(self, setting: Mapping[str, Any]) -> None:
        """Gives the optimizer the rates of a setting, in a function that is being traced."""
        optimizer, total = self.optimizer, self.group.steps
        optimizer.beta_1, optimizer.beta_2 = setting["beta_1"], setting["beta_2"]
        optimizer.momentum = setting["momentum"]
        embedding, matrix = setting["embedding_rate"], setting["matrix_learning_rate"] / setting["learning_rate"]
        optimizer.rate_scales = tuple(
            matrix if axes else embedding if self._is_embedding(variable) else 1.0
            for variable, axes in zip(self.model.trainable_variables, self.matrices, strict=True)
        )
        optimizer._learning_rate = linear_schedule(setting["learning_rate"], setting["warmup"], setting["decay"], total)

    def evaluate(self, weights: Any, others: Any, batches: Any) -> Any:
        """Returns the sums of the losses and of the hits of the masked words of all batches, and their number."""
        import jax
        import jax.numpy as jnp

        from bert_tf.training.losses import cross_entropy, is_correct

        def add(sums: Any, batch: Mapping[str, Any]) -> tuple[Any, None]:
            inputs = {name: batch[name] for name in (TOKEN_IDS, SEGMENT_IDS, PADDING_MASK, MASK_POSITIONS)}
            outputs, _ = self.model.stateless_call(weights, others, inputs, training=False)
            words, weight = batch[f"target_{MLM_LOGITS}"], batch[f"weight_{MLM_LOGITS}"]
            logits = outputs[MLM_LOGITS]
            loss, hits = jnp.sum(cross_entropy(words, logits) * weight), jnp.sum(is_correct(words, logits) * weight)
            return sums + jnp.stack([loss, hits, jnp.sum(weight)]), None

        return jax.lax.scan(add, jnp.zeros(3), batches)[0]

    def held_out(self) -> Any:
        """Returns the held-out examples in batches: arrays (batches, 64, ...)."""
        import jax.numpy as jnp

        count = min(self.group.held_out, len(self.examples.held_out[TOKEN_IDS])) // 64
        return {
            name: jnp.asarray(values[: 64 * count]).reshape(count, 64, *values.shape[1:])
            for name, values in self.examples.held_out.items()
        }

    def run(self, output: Path) -> Iterator[dict[str, Any]]:
        """Trains all runs, and yields the result of each."""
        import jax
        import jax.numpy as jnp

        group = self.group
        order = jnp.asarray(np.random.default_rng(0).permutation(len(self.examples.labels)))
        settings, state = self.settings(), self.state()
        part = group.steps // group.evaluations

        @functools.partial(jax.jit, donate_argnums=0)
        def advance(state: Any, begin: Any) -> Any:
            each = jax.vmap(self.step, in_axes=(0, 0, None, None))
            return jax.lax.fori_loop(begin, begin + part, lambda number, now: each(settings, now, number, order), state)

        score = jax.jit(jax.vmap(self.evaluate, in_axes=(0, 0, None)))
        batches, curves, began = self.held_out(), [], time.perf_counter()
        for number in range(group.evaluations):
            state = advance(state, number * part)
            curves.append(np.asarray(score(*state[:2], batches)))
            seconds = time.perf_counter() - began
            print(
                f"{group.name}: {(number + 1) * part} steps of {len(group.settings)} runs, {seconds:.0f} s", flush=True
            )
        for run, setting in enumerate(group.settings):
            changed = {f.name: v for f in fields(setting) if (v := getattr(setting, f.name)) != f.default}
            sums = [curve[run] for curve in curves]
            if group.keep:
                paths = [variable.path for variable in self.model.trainable_variables]
                values = [np.asarray(value[run], np.float16) for value in state[0]]
                np.savez_compressed(output / f"{group.name}-{run}.npz", **dict(zip(paths, values, strict=True)))
            yield {
                "group": group.name,
                "model": group.model,
                "fields": dict(group.fields) | dict(group.training),
                "batch_size": group.batch_size,
                "setting": changed,
                "steps": [part * (number + 1) for number in range(group.evaluations)],
                "perplexity": [round(math.exp(loss / count), 2) for loss, _, count in sums],
                "accuracy": [round(float(hits / count), 4) for _, hits, count in sums],
                "seconds": round(seconds, 1),
            }


def linear_schedule(peak: Any, warmup: Any, decay: Any, total: int) -> Any:
    """Returns a schedule whose arguments may be traced: linear warm-up, a constant rate and linear decay to zero.

    Args:
        peak: highest rate.
        warmup: share of the steps before it.
        decay: share of the steps of the decay.
        total: number of steps.
    """
    import jax.numpy as jnp
    import keras

    class Traced(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step: Any) -> Any:
            done = jnp.asarray(step, jnp.float32)
            rise, fall = (done + 1.0) / (warmup * total + 1.0), (total - done) / (decay * total)
            return peak * jnp.clip(jnp.minimum(rise, fall), 0.0, 1.0)

    return Traced()


def table(results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yields the lines of a table of results."""
    yield "| group | setting | steps | perplexity | masked words |"
    yield "|---|---|---|---|---|"
    for result in results:
        changed = ", ".join(f"{name}={value:g}" for name, value in result["setting"].items())
        curve = ", ".join(f"{value:.4g}" for value in result["perplexity"])
        yield f"| {result['group']} | {changed} | {result['steps'][-1]:,} | {curve} | {result['accuracy'][-1]:.1%} |"


def main() -> None:
    """Packs a data directory, or trains the settings of a plan."""
    parser = measure.parser(__doc__, output="runs/sweep")
    parser.add_argument("action", choices=["pack", "run"])
    parser.add_argument("source", type=Path, help="data directory of `pack`, file of examples of `run`")
    parser.add_argument("target", type=Path, help="file of examples of `pack`, plan of `run`")
    parser.add_argument("--groups", nargs="+", help="names of groups; default: all of the plan")
    args = parser.parse_args()
    if args.action == "pack":
        pack(args.source, args.target)
        return
    groups = [Group.from_json(values) for values in json.loads(args.target.read_text(encoding="utf-8"))]
    chosen = [group for group in groups if args.groups is None or group.name in args.groups]
    args.output.mkdir(parents=True, exist_ok=True)
    examples = Examples(args.source)
    with (args.output / "sweep.jsonl").open("a", encoding="utf-8") as lines:
        results = []
        for result in itertools.chain.from_iterable(Sweep(group, examples).run(args.output) for group in chosen):
            results.append(result)
            lines.write(json.dumps(result) + "\n")
            lines.flush()
    print("\n".join(table(results)))


if __name__ == "__main__":
    main()

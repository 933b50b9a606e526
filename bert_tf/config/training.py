"""Configuration of training runs."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar

from bert_tf.config.errors import ConfigError, check_fields
from bert_tf.config.model import BertConfig

PRECISIONS = ("float32", "bfloat16", "float16")
STRATEGIES = ("none", "mirrored", "multi_worker", "tpu")
OPTIMIZERS = ("adamw", "lamb", "muon")
EPSILON_FORMS = ("tensorflow", "torch")
MATRIX_SCALES = ("rms", "original")
SCHEDULES = ("linear", "original", "trapezoidal")
ON_NAN = ("stop", "skip", "halve")
PADDINGS = ("full", "bins", "pack")
JIT_COMPILE = ("auto", "true", "false")
ATTENTION_KERNELS = ("auto", "fused", "plain")
PAD_VOCABULARY = ("auto", "true", "false")
# Dtype of layer normalization: float32, or the compute dtype with float32 statistics.
NORMALIZATIONS = ("float32", "compute")
# The language models of pre-training; their names are the prefixes of their metrics.
OBJECTIVES = ("mlm", "causal_lm")

# The middle of the paper's grid (arXiv 1810.04805, A.3), for the width of base.
FINETUNING_RATE, _WIDTH_OF_BASE = 3e-5, 768
# Power of the ratio of the widths: with a `tiny` of Wikipedia, 4.4e-4 by this power is between the best rates of its
# tasks (docs/tasks.md). The highest rate is one that was good for all of them.
_WIDTH_POWER, _HIGHEST_RATE = 1.5, 6e-4

T = TypeVar("T", int, float)

_COUNTS = ("steps", "epochs", "accumulate", "checkpoint_every", "keep_checkpoints", "log_every", "newton_schulz_steps")
_NOT_NEGATIVE = ("weight_decay", "clip_norm", "evaluate_every", "evaluate_steps", "patience", "show_examples",
                 "num_replicas", "seed", "peak_flops", "keep_every", "nsp_weight")  # fmt: skip
_CHOICES = {
    "objective": OBJECTIVES,
    "precision": PRECISIONS,
    "strategy": STRATEGIES,
    "optimizer": OPTIMIZERS,
    "adam_epsilon_form": EPSILON_FORMS,
    "matrix_scale": MATRIX_SCALES,
    "schedule": SCHEDULES,
    "on_nan": ON_NAN,
    "padding": PADDINGS,
    "jit_compile": JIT_COMPILE,
    "attention_kernel": ATTENTION_KERNELS,
    "pad_vocabulary": PAD_VOCABULARY,
    "normalization": NORMALIZATIONS,
}


@dataclass(frozen=True)
class TrainingConfig:
    """Configuration of optimization, precision, distribution, checkpoints and logging.

    The defaults for learning rate, betas, weight decay, warm-up and clipping are the pre-training values of
    arXiv 1810.04805, A.2.

    Args:
        steps: total number of optimizer steps (pre-training).
        long_share: share of steps, at the end of training, on the longer examples; used if the data has two lengths.
        objective: language model of pre-training: `mlm` predicts masked tokens; `causal_lm` masks none and predicts
            each token from the tokens before it, as "LTR" in Table 5 of the paper, which needs `model.attention` =
            left_to_right.
        nsp_weight: factor of the next sentence loss (pre-training). 0 leaves next sentence prediction out: the model
            has neither its head nor a pooler, and the data stays the same.
        epochs: passes over the training data (fine-tuning).
        batch_size: global batch size in sequences, over all replicas; in pre-training also `first:last`, such as
            `16:64`: the size doubles up to the last one, and each size takes as many steps.
        padding: padding of pre-training examples: `full` pads to the maximum length of the data; `bins` batches
            examples of similar length; `pack` puts several examples into a row, with the loss and gradient of `full`.
        masked_lm_prob: share of tokens to predict, instead of the data's; a negative value uses the data's. With
            `first:last`, such as `0.3:0.15`, it changes from one share to the other over the run, or over the decay of
            the schedule `trapezoidal`. Needs data with dynamic masks. Held-out data is always masked as its own
            configuration says.
        mask_share: share of the predicted positions replaced by [MASK], instead of the data's `mask_share`; a negative
            value uses the data's. The conditions of `masked_lm_prob` apply.
        random_share: the same for the share replaced by a random token; the rest are unchanged.
        accumulate: gradient accumulation: number of parts into which each replica splits its share of a batch to save
            memory.
        optimizer: `adamw`; `lamb` for large batches (arXiv 1904.00962); or `muon`, which takes orthogonalized steps
            (arXiv 2502.16982) with the kernels of attention and feed-forward, and AdamW's with all other weights.
        learning_rate: peak learning rate, reached after `warmup_steps`.
        schedule: `linear` decay to zero after the warm-up; `trapezoidal`, a constant rate until the last `decay_steps`,
            so that a run can be extended; `original` for the formula of the original optimizer, which starts at 0.
        warmup_steps: number of linear warm-up steps; a negative value means a tenth of all steps.
        decay_steps: number of steps of linear decay at the end of the schedule `trapezoidal`; a negative value means a
            fifth of all steps (arXiv 2405.18392, 4.1).
        weight_decay: decoupled weight decay of all weights except biases and layer normalization.
        layer_decay: factor of the learning rate from each layer to the layer below (arXiv 1801.06146, 3.2); 1 disables
            it.
        adam_beta_1: decay rate of the first moment.
        adam_beta_2: decay rate of the second moment.
        adam_epsilon: epsilon of AdamW.
        adam_epsilon_form: `tensorflow` adds epsilon to the square root of the second moment before its bias correction,
            so that the first steps are smaller; `torch` adds it after the correction.
        bias_correction: whether Adam's moments are bias-corrected; the original does not correct them.
        clip_norm: maximum global gradient norm; 0 disables clipping. Muon's matrices count in the norm and are not
            clipped.
        matrix_learning_rate: peak learning rate of Muon's matrices; a negative value means `learning_rate`.
        matrix_momentum: decay rate of the Nesterov momentum of Muon's matrices.
        matrix_scale: size of Muon's steps: `rms`, 0.2 sqrt(max(inputs, outputs)), as large as AdamW's, or `original`,
            sqrt(max(1, outputs / inputs)).
        newton_schulz_steps: iterations of Muon's orthogonalization.
        average: momentum of a moving average of the weights, which is evaluated and saved at the end; 0 disables it.
        seed: random seed of initial weights, dropout, data order and masks.
        checkpoint_every: steps between checkpoints.
        keep_checkpoints: number of most recent checkpoints to keep.
        keep_every: keep the checkpoints of multiples of this step too, for example to evaluate `RUN@STEP`; a multiple
            of `checkpoint_every`; 0 keeps only the most recent checkpoints.
        evaluate_every: steps between evaluations on held-out data; 0 evaluates at the end only.
        evaluate_steps: batches per evaluation, of `batch_size` / `accumulate` examples; 0 uses all held-out data.
        patience: early stopping of fine-tuning after this many epochs without improvement on held-out data; keeps the
            model of the best epoch. 0 runs all epochs and keeps the last model.
        show_examples: held-out examples logged at every evaluation with the predictions for their masks
            (pre-training); 0 disables it.
        log_every: steps between progress lines and TensorBoard points.
        profile_steps: steps to trace for TensorBoard's Profile tab as `first:last`, both inclusive, counted from 1;
            empty disables tracing.
        on_nan: reaction to a non-finite loss or gradient, which is found when metrics are recorded: `stop`; `skip`
            restores the last checkpoint and skips the batch; `halve` restores the last checkpoint and halves the
            learning rate from there on.
        precision: compute dtype: `float32`, `bfloat16` or `float16`; weights are always float32.
        jit_compile: whether XLA compiles the forward and backward pass: `true`, `false`, or `auto`, which compiles on
            GPUs; JAX always compiles. Each new batch shape is compiled once.
        attention_kernel: `plain`; `fused`, the attention kernel of Keras, which has no dropout, so
            `model.attention_dropout` must be 0; `auto`, fused on accelerators with JAX if the model has no attention
            dropout.
        rematerialize: whether the backward pass computes the activations of each layer again, which takes less memory
            and more time. The results are the same.
        pad_vocabulary: whether the projection to the vocabulary is computed with zeros up to a multiple of 128, which
            suits the matrix units of accelerators: `true`, `false`, or `auto`, which pads on accelerators. Weights and
            checkpoints keep their size.
        normalization: dtype that layer normalization reads, and keeps for the backward pass: `float32`, or `compute`,
            that of `precision`, which takes less memory. The statistics are float32.
        strategy: distribution strategy: `none`; `mirrored`, one replica per local device; `multi_worker`, one per
            device of all processes, which `TF_CONFIG` lists; `tpu`, one per TPU core (not tested yet).
        num_replicas: number of replicas for `mirrored`; 0 uses all devices.
        worker_timeout: seconds that a `multi_worker` process waits for the other workers at the start.
        tpu_name: TPU for `tpu`: a name, `grpc://host:port` or `local`; empty uses `TPU_NAME`.
        peak_flops: peak FLOP/s of one device in this precision, used for model FLOPs utilization (MFU); 0 measures it
            with a large matrix product at the start.

    Example:
        >>> config = bert_tf.TrainingConfig(steps=10_000, learning_rate=5e-4, precision="bfloat16")
        >>> config.resolved_warmup(config.steps)  # a tenth of the steps by default
        1000
    """

    steps: int = 1000
    long_share: float = 0.1
    objective: str = "mlm"
    nsp_weight: float = 1.0
    epochs: int = 3
    batch_size: int | str = 32
    padding: str = "full"
    masked_lm_prob: float | str = -1.0
    mask_share: float = -1.0
    random_share: float = -1.0
    accumulate: int = 1
    optimizer: str = "adamw"
    learning_rate: float = 1e-4
    schedule: str = "linear"
    warmup_steps: int = -1
    decay_steps: int = -1
    weight_decay: float = 0.01
    layer_decay: float = 1.0
    adam_beta_1: float = 0.9
    adam_beta_2: float = 0.999
    adam_epsilon: float = 1e-6
    adam_epsilon_form: str = "tensorflow"
    bias_correction: bool = True
    clip_norm: float = 1.0
    matrix_learning_rate: float = -1.0
    matrix_momentum: float = 0.95
    matrix_scale: str = "rms"
    newton_schulz_steps: int = 5
    average: float = 0.0
    seed: int = 12345
    checkpoint_every: int = 1000
    keep_checkpoints: int = 3
    keep_every: int = 0
    evaluate_every: int = 0
    evaluate_steps: int = 0
    patience: int = 0
    show_examples: int = 4
    log_every: int = 50
    profile_steps: str = ""
    on_nan: str = "stop"
    precision: str = "float32"
    jit_compile: str = "auto"
    attention_kernel: str = "auto"
    rematerialize: bool = False
    pad_vocabulary: str = "auto"
    normalization: str = "float32"
    strategy: str = "none"
    num_replicas: int = 0
    worker_timeout: float = 600.0
    tpu_name: str = ""
    peak_flops: float = 0.0

    def __post_init__(self) -> None:
        check = functools.partial(check_fields, self, section="training.")
        numbers = [item.name for item in fields(self) if isinstance(getattr(self, item.name), float)]
        check(numbers, math.isfinite, "must be a finite number")
        check(_COUNTS, lambda value: value >= 1, "must be at least 1")
        check(_NOT_NEGATIVE, lambda value: value >= 0, "must not be negative")
        check(["learning_rate", "worker_timeout"], lambda value: value > 0, "must be positive")
        check(["long_share"], lambda value: 0 < value < 1, "must be in (0, 1)")
        check(["matrix_learning_rate"], lambda value: value, "must not be 0; negative means `learning_rate`")
        check(["average", "matrix_momentum"], lambda value: 0 <= value < 1, "must be in [0, 1)")
        check(["layer_decay"], lambda value: 0 < value <= 1, "must be in (0, 1]")
        check(["mask_share", "random_share"], lambda value: value <= 1, "must be at most 1; negative uses the data's")
        every = self.checkpoint_every
        check(["keep_every"], lambda value: value % every == 0, f"must be a multiple of `checkpoint_every`, {every}")
        sizes, shares = self._pair("batch_size", int), self._pair("masked_lm_prob", float)
        if not 1 <= sizes[0] <= sizes[1]:
            raise ConfigError(
                "`training.batch_size` must be at least 1, or `first:last` with 1 <= first <= last. "
                f"Received: {self.batch_size!r}"
            )
        if not (
            all(map(math.isfinite, shares))
            and max(shares) <= 1
            and (min(shares) > 0 or (isinstance(self.masked_lm_prob, float) and max(shares) < 0))
        ):
            raise ConfigError(
                "`training.masked_lm_prob` must be in (0, 1], or `first:last` with two such numbers; a negative number "
                f"uses the data's. Received: {self.masked_lm_prob!r}"
            )
        len(self.profiled_steps)  # Raises ConfigError if `profile_steps` is invalid.
        for name, known in _CHOICES.items():
            check([name], known.__contains__, f"must be one of {', '.join(known)}")

    @property
    def profiled_steps(self) -> range:
        """Steps to trace, counted from 1."""
        if not self.profile_steps:
            return range(0)
        match = re.fullmatch(r"([1-9]\d*):([1-9]\d*)", self.profile_steps)
        if match is None or int(match[1]) > int(match[2]):
            raise ConfigError(
                "`training.profile_steps` must be empty or `first:last` with 1 <= first <= last. "
                f"Received: {self.profile_steps!r}"
            )
        return range(int(match[1]), int(match[2]) + 1)

    def _pair(self, name: str, number: Callable[[str], T]) -> tuple[T, T]:
        """Returns the numbers of a field `first:last`, or its only number twice."""
        first, colon, last = str(getattr(self, name)).partition(":")
        try:
            return number(first), number(last if colon else first)
        except ValueError:
            raise ConfigError(
                f"`training.{name}` must be a number or `first:last`. Received: {getattr(self, name)!r}"
            ) from None

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """Global batch sizes in their order: the first one, doubled until it reaches the last one."""
        size, last = self._pair("batch_size", int)
        sizes = []
        while size < last:
            sizes.append(size)
            size *= 2
        return (*sizes, last)

    @property
    def largest_batch(self) -> int:
        """Largest global batch size."""
        return self.batch_sizes[-1]

    @property
    def masked_lm_shares(self) -> tuple[float, float] | None:
        """First and last share of tokens to predict; None for the data's."""
        shares = self._pair("masked_lm_prob", float)
        return shares if shares[0] > 0 else None

    @property
    def matrix_rate_scale(self) -> float:
        """Learning rate of Muon's matrices as a factor of `learning_rate`."""
        return self.matrix_learning_rate / self.learning_rate if self.matrix_learning_rate > 0 else 1.0

    def resolved_warmup(self, total_steps: int) -> int:
        """Returns the number of warm-up steps in a run of `total_steps`."""
        return self.warmup_steps if self.warmup_steps >= 0 else max(1, total_steps // 10)

    def resolved_decay(self, total_steps: int) -> int:
        """Returns the number of steps of the decay of the schedule `trapezoidal` in a run of `total_steps`."""
        return min(total_steps, self.decay_steps if self.decay_steps >= 0 else max(1, total_steps // 5))

    def with_decay_from(self, step: int) -> TrainingConfig:
        """Returns the configuration of a run whose decay begins after `step` steps and is as long as in this one.

        Raises ConfigError if the schedule has no constant part, or `step` is before the end of the warm-up.
        """
        if not self.is_extendable:
            raise ConfigError(
                "`--decay_from` needs `training.schedule` = trapezoidal. "
                f"Received: {self.schedule}. Set training.schedule=trapezoidal."
            )
        decay = self.resolved_decay(self.steps)
        config = replace(self, steps=max(1, step + decay), decay_steps=decay)
        if step < (warmup := config.resolved_warmup(config.steps)):
            raise ConfigError(
                f"`--decay_from` must be at least the warm-up, {warmup} steps. Received: {step}. Choose a later step, "
                "or a shorter `training.warmup_steps`."
            )
        return config

    @property
    def is_extendable(self) -> bool:
        """True if the first rates do not depend on the number of steps."""
        return self.schedule == "trapezoidal"

    @property
    def decay_start(self) -> int:
        """Number of steps before the decay of the schedule `trapezoidal`."""
        return self.steps - self.resolved_decay(self.steps)


def check_finetuning(config: TrainingConfig) -> None:
    """Raises ConfigError for a strategy or a setting that fine-tuning does not support."""
    for name, value in (("batch_size", config.batch_size), ("masked_lm_prob", config.masked_lm_prob)):
        if isinstance(value, str):
            raise ConfigError(f"`training.{name}` must be one number in fine-tuning. Received: {value}")
    reasons = {
        "multi_worker": "fine-tuning runs in one process",
        "tpu": "batches of fine-tuning have several lengths, and the strategy needs one. JAX trains on the TPUs of one "
        "machine with `KERAS_BACKEND=jax` and mirrored",
    }
    if reason := reasons.get(config.strategy):
        raise ConfigError(f"`training.strategy` must be none or mirrored. Received: {config.strategy}; {reason}.")


def check_objective(config: RunConfig, has_pairs: bool) -> None:
    """Raises ConfigError if the objectives of pre-training do not fit the model's attention or the data.

    Args:
        config: configuration of the run.
        has_pairs: True if the data has sentence pairs.
    """
    training, attention = config.training, config.model.attention
    if training.objective == "causal_lm" and attention != "left_to_right":
        raise ConfigError(
            "`training.objective` = causal_lm needs `model.attention` = left_to_right, because each position would see "
            f"the token to predict. Received: {attention}. Set model.attention=left_to_right."
        )
    if training.objective == "mlm" and attention == "left_to_right":
        raise ConfigError(
            "`model.attention` = left_to_right needs `training.objective` = causal_lm, the language model of such "
            "encoders. Received: mlm. Set training.objective=causal_lm, or model.attention=bidirectional."
        )
    if training.objective == "causal_lm" and training.nsp_weight and has_pairs:
        raise ConfigError(
            "`training.nsp_weight` must be 0 with `training.objective` = causal_lm and data of sentence pairs: next "
            "sentences are predicted from [CLS], which sees no other token in a left-to-right model. "
            f"Received: {training.nsp_weight}. Set training.nsp_weight=0."
        )
    used = {
        "masked_lm_prob": training.masked_lm_shares is not None,
        "mask_share": training.mask_share >= 0,
        "random_share": training.random_share >= 0,
    }
    for name in used:
        if training.objective == "causal_lm" and used[name]:
            raise ConfigError(
                f"`training.{name}` has no effect with `training.objective` = causal_lm, which masks no tokens. "
                f"Received: {getattr(training, name)}. Leave it out."
            )


@dataclass(frozen=True)
class RunConfig:
    """Configuration of a training run; `--set section.field=value` overrides its fields.

    Args:
        model: architecture.
        training: training configuration.

    Example:
        >>> run = bert_tf.RunConfig(
        ...     model=bert_tf.BertConfig.from_size("tiny", vocabulary_size=8000),
        ...     training=bert_tf.TrainingConfig(steps=500),
        ... )
        >>> run.model.hidden_dim, run.training.steps
        (128, 500)
    """

    model: BertConfig = field(default_factory=BertConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)


def rate_of_width(rate: float, hidden_dim: int) -> float:
    """Returns the learning rate of fine-tuning for an encoder of another width than base, to two digits.

    Narrow encoders need a higher rate; those of base and large are the paper's.

    Args:
        rate: rate of base.
        hidden_dim: width of the encoder.

    Example:
        >>> from bert_tf.config.training import rate_of_width
        >>> [rate_of_width(3e-5, width) for width in (1024, 768, 256)]
        [3e-05, 3e-05, 0.00016]
    """
    factor = max(1.0, _WIDTH_OF_BASE / hidden_dim) ** _WIDTH_POWER
    return float(f"{min(rate * factor, max(rate, _HIGHEST_RATE)):.2g}") if factor > 1 else rate

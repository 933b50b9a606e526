"""How a model is trained, and the whole of a run."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, fields

from bert_tf.config.base import ConfigError
from bert_tf.config.model import BertConfig

PRECISIONS = ("float32", "bfloat16", "float16")
STRATEGIES = ("none", "mirrored", "multi_worker", "tpu")
OPTIMIZERS = ("adamw", "lamb")
SCHEDULES = ("linear", "original")
ON_NAN = ("stop", "skip", "halve")
PADDINGS = ("full", "bins", "pack")


_COUNTS = ("steps", "epochs", "batch_size", "accumulate", "checkpoint_every", "keep_checkpoints", "log_every")
_CHOICES = {
    "precision": PRECISIONS,
    "strategy": STRATEGIES,
    "optimizer": OPTIMIZERS,
    "schedule": SCHEDULES,
    "on_nan": ON_NAN,
    "padding": PADDINGS,
}


@dataclass(frozen=True)
class TrainingConfig:
    """Optimization, precision, distribution and bookkeeping of one run.

    The defaults of rate, betas, decay, warm-up and clipping are the paper's for pre-training (A.2 of
    arXiv 1810.04805).

    Args:
        steps: optimizer steps in all (pre-training).
        long_share: share of the steps, the last ones, that take the longer examples where the data have two lengths.
        epochs: passes over the training data (fine-tuning).
        batch_size: sequences in a global batch, over all replicas.
        padding: of pre-training examples: `full`, to the longest that the data may have; `bins`, batches of examples of
            about the same length; `pack`, several examples in a row, with the loss and the gradient of `full`.
        accumulate: parts in which a replica works through its share of a batch, one after the other, where memory
            does not hold it at once.
        optimizer: `adamw`, or `lamb` for large batches (arXiv 1904.00962).
        learning_rate: peak rate, reached after `warmup_steps`, then decayed linearly to zero.
        schedule: `linear`, or `original` for the exact rates of the original's optimizer, whose first is 0.
        warmup_steps: steps of linear warm-up; below 0 means a tenth of all steps.
        weight_decay: decoupled decay of everything but biases and layer normalization.
        layer_decay: factor of the rate from each layer to the one below it (arXiv 1801.06146, 3.2); 1 for none.
        adam_beta_1, adam_beta_2, adam_epsilon: AdamW's constants.
        bias_correction: whether Adam's moments are corrected; the original does without.
        clip_norm: global gradient norm; 0 clips nothing.
        average: momentum of a moving average over the weights, which is what is evaluated and kept at the end; 0 for
            none.
        seed: initial weights, dropout, data order and masks follow from it.
        checkpoint_every: steps between checkpoints.
        keep_checkpoints: how many of the newest stay.
        evaluate_every: steps between evaluations on held-out data; 0 evaluates at the end only.
        evaluate_steps: batches in one evaluation; 0 takes all held-out data.
        patience: epochs without a better figure on held-out data after which fine-tuning ends, the best epoch's model
            kept; 0 goes through all epochs and keeps the last one's.
        show_examples: held-out examples shown at every evaluation with what the model says to their masks
            (pre-training); 0 for none.
        log_every: steps between progress lines and TensorBoard points.
        profile_steps: steps to trace for TensorBoard's Profile tab, `first:last`, both included and counted from 1;
            empty traces none.
        on_nan: what follows a loss that is not finite: `stop`; `skip` goes back to the last checkpoint and leaves the
            batch out; `halve` goes back and halves the rate from there on.
        precision: `float32`, `bfloat16` or `float16` compute; weights stay float32.
        strategy: `none`; `mirrored`, a copy of the model on each device; `multi_worker`, on each of several processes,
            which `TF_CONFIG` names; `tpu`, on each core of a TPU (not run yet).
        num_replicas: replicas under `mirrored`; 0 takes every device.
        worker_timeout: seconds that a process under `multi_worker` waits at the start for the others.
        tpu_name: the TPU under `tpu`: a name, `grpc://host:port` or `local`; empty for what `TPU_NAME` says.
        peak_flops: operations a second of one device in this precision, for the share that training makes use of (MFU);
            0 times a large matrix product at the start.
    """

    steps: int = 1000
    long_share: float = 0.1
    epochs: int = 3
    batch_size: int = 32
    padding: str = "full"
    accumulate: int = 1
    optimizer: str = "adamw"
    learning_rate: float = 1e-4
    schedule: str = "linear"
    warmup_steps: int = -1
    weight_decay: float = 0.01
    layer_decay: float = 1.0
    adam_beta_1: float = 0.9
    adam_beta_2: float = 0.999
    adam_epsilon: float = 1e-6
    bias_correction: bool = True
    clip_norm: float = 1.0
    average: float = 0.0
    seed: int = 12345
    checkpoint_every: int = 1000
    keep_checkpoints: int = 3
    evaluate_every: int = 0
    evaluate_steps: int = 0
    patience: int = 0
    show_examples: int = 4
    log_every: int = 50
    profile_steps: str = ""
    on_nan: str = "stop"
    precision: str = "float32"
    strategy: str = "none"
    num_replicas: int = 0
    worker_timeout: float = 600.0
    tpu_name: str = ""
    peak_flops: float = 0.0

    def __post_init__(self) -> None:
        for item in fields(self):
            if isinstance(getattr(self, item.name), float) and not math.isfinite(getattr(self, item.name)):
                raise ConfigError(
                    f"`training.{item.name}` must be a finite number. Received: {getattr(self, item.name)}"
                )
        for name in _COUNTS:
            if getattr(self, name) < 1:
                raise ConfigError(f"`training.{name}` must be at least 1. Received: {getattr(self, name)}")
        for name in (
            "weight_decay",
            "clip_norm",
            "evaluate_every",
            "evaluate_steps",
            "patience",
            "show_examples",
            "num_replicas",
            "seed",
            "peak_flops",
        ):
            if getattr(self, name) < 0:
                raise ConfigError(f"`training.{name}` must not be negative. Received: {getattr(self, name)}")
        if not self.learning_rate > 0:
            raise ConfigError(f"`training.learning_rate` must be positive. Received: {self.learning_rate}")
        if not self.worker_timeout > 0:
            raise ConfigError(f"`training.worker_timeout` must be positive. Received: {self.worker_timeout}")
        if not 0 < self.long_share < 1:
            raise ConfigError(f"`training.long_share` must be in (0, 1). Received: {self.long_share}")
        if not 0 <= self.average < 1:
            raise ConfigError(f"`training.average` must be in [0, 1). Received: {self.average}")
        if not 0 < self.layer_decay <= 1:
            raise ConfigError(f"`training.layer_decay` must be in (0, 1]. Received: {self.layer_decay}")
        len(self.profiled_steps)  # Raises where it cannot be read.
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise ConfigError(
                    f"`training.{name}` must be one of {', '.join(known)}. Received: {getattr(self, name)!r}"
                )

    @property
    def profiled_steps(self) -> range:
        """The steps to trace, counted from 1."""
        if not self.profile_steps:
            return range(0)
        match = re.fullmatch(r"([1-9]\d*):([1-9]\d*)", self.profile_steps)
        if match is None or int(match[1]) > int(match[2]):
            raise ConfigError(
                "`training.profile_steps` must be empty or `first:last`, the first not below 1 nor above the last. "
                f"Received: {self.profile_steps!r}"
            )
        return range(int(match[1]), int(match[2]) + 1)

    def resolved_warmup(self, total_steps: int) -> int:
        """Returns the warm-up steps of a run of `total_steps`."""
        return self.warmup_steps if self.warmup_steps >= 0 else max(1, total_steps // 10)


@dataclass(frozen=True)
class RunConfig:
    """All of a training run: what `--set section.field=value` can reach."""

    model: BertConfig = field(default_factory=BertConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)

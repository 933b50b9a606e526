"""How a model is trained, and the whole of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

from bert_tf.config.base import ConfigError
from bert_tf.config.model import BertConfig

PRECISIONS = ("float32", "bfloat16", "float16")
STRATEGIES = ("none", "mirrored", "multi_worker")
OPTIMIZERS = ("adamw", "lamb")
SCHEDULES = ("linear", "original")
ON_NAN = ("stop", "skip", "halve")


_COUNTS = ("steps", "epochs", "batch_size", "accumulate", "checkpoint_every", "keep_checkpoints", "log_every")
_CHOICES = {
    "precision": PRECISIONS,
    "strategy": STRATEGIES,
    "optimizer": OPTIMIZERS,
    "schedule": SCHEDULES,
    "on_nan": ON_NAN,
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
        log_every: steps between progress lines and TensorBoard points.
        on_nan: what follows a loss that is not finite: `stop`; `skip` goes back to the last checkpoint and leaves the
            batch out; `halve` goes back and halves the rate from there on.
        precision: `float32`, `bfloat16` or `float16` compute; weights stay float32.
        strategy: `none`; `mirrored`, a copy of the model on each device; `multi_worker`, on each of several processes,
            which `TF_CONFIG` names.
        num_replicas: replicas under `mirrored`; 0 takes every device.
        peak_flops: operations a second of one device in this precision, for the share that training makes use of (MFU);
            0 times a large matrix product at the start.
    """

    steps: int = 1000
    long_share: float = 0.1
    epochs: int = 3
    batch_size: int = 32
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
    log_every: int = 50
    on_nan: str = "stop"
    precision: str = "float32"
    strategy: str = "none"
    num_replicas: int = 0
    peak_flops: float = 0.0

    def __post_init__(self) -> None:
        for name in _COUNTS:
            if getattr(self, name) < 1:
                raise ConfigError(f"`training.{name}` must be at least 1. Received: {getattr(self, name)}")
        for name in (
            "weight_decay",
            "clip_norm",
            "evaluate_every",
            "evaluate_steps",
            "num_replicas",
            "seed",
            "peak_flops",
        ):
            if getattr(self, name) < 0:
                raise ConfigError(f"`training.{name}` must not be negative. Received: {getattr(self, name)}")
        if not self.learning_rate > 0:
            raise ConfigError(f"`training.learning_rate` must be positive. Received: {self.learning_rate}")
        if not 0 < self.long_share < 1:
            raise ConfigError(f"`training.long_share` must be in (0, 1). Received: {self.long_share}")
        if not 0 <= self.average < 1:
            raise ConfigError(f"`training.average` must be in [0, 1). Received: {self.average}")
        if not 0 < self.layer_decay <= 1:
            raise ConfigError(f"`training.layer_decay` must be in (0, 1]. Received: {self.layer_decay}")
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise ConfigError(
                    f"`training.{name}` must be one of {', '.join(known)}. Received: {getattr(self, name)!r}"
                )

    def resolved_warmup(self, total_steps: int) -> int:
        """Returns the warm-up steps of a run of `total_steps`."""
        return self.warmup_steps if self.warmup_steps >= 0 else max(1, total_steps // 10)


@dataclass(frozen=True)
class RunConfig:
    """All of a training run: what `--set section.field=value` can reach."""

    model: BertConfig = field(default_factory=BertConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)

"""Estimates of the time and the disk space of runs."""

from __future__ import annotations

from pathlib import Path

from bert_tf.config import BertConfig
from bert_tf.experiments.tasks import TableTask

# Bytes of text in a token: 190 MB of English Wikipedia become 42.7 million tokens of 16,000 word pieces.
_BYTES_PER_TOKEN = 4.5
# Assumed share of the rate of a large matrix product that a training step reaches. The recipe `laptop` reaches 22,000
# tokens a second (`pretraining.recipes`), 0.4 of a rate of 230 GFLOP/s.
_UTILIZATION = 0.4
# Assumed seconds to start a process, read data and write results, on two CPU cores.
_START_SECONDS = 15.0
# Bytes of a weight in a checkpoint (value and two moments) and in a preset.
_CHECKPOINT_BYTES, _PRESET_BYTES = 12, 4


def pretraining_flops(config: BertConfig, tokens: float, predictions: float) -> float:
    """Returns the floating-point operations of pre-training.

    Args:
        config: architecture.
        tokens: number of tokens.
        predictions: share of tokens to predict.
    """
    return 6 * tokens * (_matrix_parameters(config) + predictions * config.hidden_dim * config.vocabulary_size)


def finetuning_flops(config: BertConfig, task: TableTask, tasks: Path, epochs: int) -> float:
    """Returns the floating-point operations of fine-tuning.

    Args:
        config: architecture.
        task: files of the task.
        tasks: directory of task data.
        epochs: number of epochs.
    """
    return 6 * epochs * task.size(tasks) / _BYTES_PER_TOKEN * _matrix_parameters(config)


def seconds_of(flops: float, device_flops: float) -> float:
    """Returns the estimated seconds of a run.

    Args:
        flops: its floating-point operations.
        device_flops: operations per second of a large matrix product.
    """
    return _START_SECONDS + flops / (_UTILIZATION * device_flops)


def pretraining_bytes(config: BertConfig, checkpoints: int) -> int:
    """Returns the bytes of a run with some checkpoints and its preset."""
    return config.num_parameters * (checkpoints * _CHECKPOINT_BYTES + _PRESET_BYTES)


def _matrix_parameters(config: BertConfig) -> int:
    """Returns the weights of the matrix products of the layers."""
    return config.num_layers * (4 * config.hidden_dim**2 + 2 * config.hidden_dim * config.intermediate_dim)

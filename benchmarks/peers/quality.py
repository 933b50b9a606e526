"""Batches of a data directory and the schedule of the rate, the same for all contenders of `time_to_quality`."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.session import Session

TRAIN_NAME, HELD_OUT_NAME, MODEL_NAME = "train.npz", "held_out.npz", "model.json"
WEIGHT_DECAY, EPSILON, CLIP_NORM = 0.01, 1e-6, 1.0
_WARMUP = 0.1

Batch = Mapping[str, np.ndarray]


def arguments(description: str | None) -> argparse.ArgumentParser:
    """Returns a parser with the arguments of all peers."""
    parser = argparse.ArgumentParser(description=description, allow_abbrev=False)
    parser.add_argument("--batches", type=Path, required=True, help="folder with the batches")
    parser.add_argument("--rate", type=float, required=True, help="peak learning rate")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--threads", type=int, default=1)
    return parser


def read(folder: Path, name: str) -> Iterator[dict[str, np.ndarray]]:
    """Yields the batches of a file: arrays (B, …) by name."""
    with np.load(folder / name) as arrays:
        loaded = {key: arrays[key] for key in arrays.files}
    for values in zip(*loaded.values(), strict=True):
        yield dict(zip(loaded, values, strict=True))


def rate_at(step: int, steps: int, peak: float) -> float:
    """Returns the rate of a step, counted from 0: linear warm-up in a tenth of the steps, linear decay to 0."""
    warmup = max(1, round(_WARMUP * steps))
    return peak * min((step + 1) / warmup, (steps - step) / max(1, steps - warmup))


def train(
    session: Session, args: argparse.Namespace, step: Callable[[Any, float], None], losses: Callable[[Any], np.ndarray],
    convert: Callable[[Batch], Any] = lambda batch: batch,
) -> None:  # fmt: skip
    """Runs all steps; reports the perplexity of held-out masked pieces between rounds.

    Args:
        session: session of the process.
        args: arguments of the peer.
        step: takes a step with a batch and a learning rate.
        losses: returns the losses (B, P) of masked pieces of a batch.
        convert: converts a batch to the peer's arrays.
    """
    batches = [convert(batch) for batch in read(args.batches, TRAIN_NAME)]
    held_out = [(convert(batch), batch["mask_weights"]) for batch in read(args.batches, HELD_OUT_NAME)]

    def perplexity() -> float:
        sums = [(float((losses(batch) * weights).sum()), float(weights.sum())) for batch, weights in held_out]
        return math.exp(sum(loss for loss, _ in sums) / sum(weight for _, weight in sums))

    for number, batch in enumerate(batches):
        step(batch, rate_at(number, len(batches), args.rate))
        session.after_step(perplexity)

"""Takes steps with the optimizers of other programs, and records the weights in `tests/testdata/optimizers`.

    PEER/bin/python -m tests.support.training.optimizer_peers torch
    python -m tests.support.training.optimizer_peers original --checkout CHECKOUT

`PEER` is an environment with torch 2.15.0 and numpy; `CHECKOUT` is a checkout of google-research/bert, which runs
unchanged. Both take the steps of `gradients` from `initial`. The names of the weights follow the original.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parents[2] / "testdata/optimizers"
STEPS = 50
SHAPES = {"dense/kernel": (12, 20), "tall/kernel": (24, 8), "dense/bias": (20,), "LayerNorm/gamma": (12,)}
MATRICES = ("dense/kernel", "tall/kernel")
RATE, DECAY, BETAS, EPSILON, MOMENTUM = 0.02, 0.1, (0.9, 0.98), 1e-3, 0.95
# Of the original's `create_optimizer`.
PEAK, WARMUP, TOTAL = 0.02, 8, 40


def initial() -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    return {name: random.normal(0, 0.5, shape).astype(np.float32) for name, shape in SHAPES.items()}


def gradients(step: int) -> dict[str, np.ndarray]:
    """Returns gradients with a constant part, so that momentum matters; small ones, so that epsilon does."""
    random, constant = np.random.default_rng(100 + step), np.random.default_rng(7)
    return {
        name: (random.normal(0, 1e-3, shape) + constant.normal(0, 1e-3, shape)).astype(np.float32)
        for name, shape in SHAPES.items()
    }


def torch_weights(scale: str) -> dict[str, np.ndarray]:
    """Muon for matrices, with Newton-Schulz iterations in float32, and AdamW for the other weights."""
    import torch

    # The dtype of the iterations.
    torch.bfloat16 = torch.float32
    # torch's matrices are (outputs, inputs).
    weights = {name: torch.nn.Parameter(torch.tensor(value.T.copy())) for name, value in initial().items()}
    matrices = [weights[name] for name in MATRICES]
    others = [weights[name] for name in SHAPES if name not in MATRICES]
    optimizers = [
        torch.optim.Muon(
            matrices, lr=RATE, weight_decay=DECAY, momentum=MOMENTUM, nesterov=True, ns_steps=5, adjust_lr_fn=scale
        ),
        torch.optim.AdamW(others, lr=RATE, betas=BETAS, eps=EPSILON, weight_decay=DECAY),
    ]
    for step in range(STEPS):
        for name, gradient in gradients(step).items():
            weights[name].grad = torch.tensor(gradient.T.copy())
        for optimizer in optimizers:
            optimizer.step()
    return {name: weight.detach().numpy().T for name, weight in weights.items()}


def original_weights(checkout: Path) -> dict[str, np.ndarray]:
    """The weights after every step of `optimization.create_optimizer`: (TOTAL, ...) by name."""
    import tensorflow.compat.v1 as tf

    # Of reference variables, TensorFlow 1's, a step reads the number of steps before or after its own increment.
    tf.enable_resource_variables()
    sys.path.insert(0, str(checkout))
    sys.modules["tensorflow"] = tf
    optimization: Any = importlib.import_module("optimization")
    with tf.Graph().as_default(), tf.Session() as session:
        variables = {name: tf.get_variable(name, initializer=value) for name, value in initial().items()}
        fed = {name: tf.placeholder(tf.float32, shape) for name, shape in SHAPES.items()}
        loss = tf.add_n([tf.reduce_sum(variables[name] * fed[name]) for name in SHAPES])
        train = optimization.create_optimizer(loss, PEAK, TOTAL, WARMUP, use_tpu=False)
        session.run(tf.global_variables_initializer())
        history: dict[str, list[np.ndarray]] = {name: [] for name in SHAPES}
        for step in range(TOTAL):
            found = gradients(step)
            session.run(train, {fed[name]: found[name] for name in SHAPES})
            for name, value in session.run(variables).items():
                history[name].append(value)
    return {name: np.stack(values) for name, values in history.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", choices=["torch", "original"])
    parser.add_argument("--checkout", type=Path)
    args = parser.parse_args()
    if args.program == "original":
        np.savez(FOLDER / "original.npz", **original_weights(args.checkout))
        return
    scales = {"rms": "match_rms_adamw", "original": "original"}
    weights = {name: torch_weights(adjust) for name, adjust in scales.items()}
    np.savez(
        FOLDER / "torch.npz",
        **{f"{scale}/{name}": value for scale, found in weights.items() for name, value in found.items()},
    )


if __name__ == "__main__":
    main()

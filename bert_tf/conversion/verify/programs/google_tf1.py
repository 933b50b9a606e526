"""Computes outputs with the original's own code, from a checkout of google-research/bert.

    python google_tf1.py CHECKOUT CHECKPOINT INPUTS.npz OUTPUTS.npz

The checkout runs unchanged in TensorFlow 1 mode. This module replaces the functions that TensorFlow has since removed.
Every variable must come from the checkpoint. Only a whole pooler may be missing; its output is then omitted.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

_EPSILON = 1e-12
_POOLER = {"bert/pooler/dense/kernel", "bert/pooler/dense/bias"}
# Heads that the original has no program for, by name prefix.
_OTHER_TASKS = {"cls/token/": "token", "cls/choice/": "choice"}


def layer_norm(inputs, begin_norm_axis, begin_params_axis, scope=None):
    """Replaces `tf.contrib.layers.layer_norm` for the last axis."""
    if (begin_norm_axis, begin_params_axis) != (-1, -1):
        raise ValueError(f"the axes must be -1 and -1. Received: {begin_norm_axis} and {begin_params_axis}")
    with tf.variable_scope(scope, default_name="LayerNorm"):
        beta = tf.get_variable("beta", [inputs.shape[-1]], initializer=tf.zeros_initializer())
        gamma = tf.get_variable("gamma", [inputs.shape[-1]], initializer=tf.ones_initializer())
        mean, variance = tf.nn.moments(inputs, [-1], keep_dims=True)
        return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, _EPSILON)


def dense(inputs, units, activation=None, kernel_initializer=None, name=None):
    """Replaces `tf.layers.dense` for inputs of two axes."""
    with tf.variable_scope(name, default_name="dense"):
        kernel = tf.get_variable("kernel", [inputs.shape[-1], units], initializer=kernel_initializer)
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        outputs = tf.nn.bias_add(tf.matmul(inputs, kernel), bias)
    return outputs if activation is None else activation(outputs)


def original_module(name: str) -> Any:
    """Imports a module of the checkout; its flags are removed first, since the programs share flag names."""
    for flag in list(tf.flags.FLAGS):
        delattr(tf.flags.FLAGS, flag)
    return importlib.import_module(name)


class Graph:
    """A graph of the original, its inputs and its initial checkpoint."""

    def __init__(self, checkpoint: str, inputs: dict[str, np.ndarray]) -> None:
        self.modeling = original_module("modeling")
        self.config = self.modeling.BertConfig.from_json_file(str(Path(checkpoint).parent / "bert_config.json"))
        self.checkpoint = checkpoint
        self.ids, self.mask, self.segments, self.positions = (
            tf.constant(inputs[name]) for name in ("token_ids", "padding_mask", "segment_ids", "mask_positions")
        )
        self.names = {name for name, _ in tf.train.list_variables(checkpoint)}

    def answers(self, outputs: dict[str, tf.Tensor]) -> dict[str, np.ndarray]:
        """Initializes every variable from the checkpoint and computes the outputs."""
        variables = tf.trainable_variables()
        mapping, _ = self.modeling.get_assignment_map_from_checkpoint(variables, self.checkpoint)
        missing = {variable.name.removesuffix(":0") for variable in variables} - set(mapping)
        if missing == _POOLER and "nsp_logits" not in outputs:
            outputs.pop("pooled_output", None)
        elif missing:
            raise SystemExit(f"{self.checkpoint}: has no values for {sorted(missing)} of the original's model")
        tf.train.init_from_checkpoint(self.checkpoint, mapping)
        # Accelerators multiply float32 with reduced precision.
        with tf.Session(config=tf.ConfigProto(device_count={"GPU": 0})) as session:
            session.run(tf.global_variables_initializer())
            return session.run(outputs)


def pretraining(checkpoint: str, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the outputs of the encoder and of the pre-training heads."""
    graph = Graph(checkpoint, inputs)
    model = graph.modeling.BertModel(graph.config, False, graph.ids, graph.mask, graph.segments)
    outputs = {"sequence_output": model.get_sequence_output(), "pooled_output": model.get_pooled_output()}
    program = original_module("run_pretraining")
    batch, length = inputs["mask_positions"].shape
    if "cls/predictions/output_bias" in graph.names:
        labels, weights = tf.zeros([batch, length], tf.int32), tf.ones([batch, length])
        *_, log_probabilities = program.get_masked_lm_output(
            graph.config, outputs["sequence_output"], model.get_embedding_table(), graph.positions, labels, weights
        )
        outputs["mlm_logits"] = tf.reshape(_logits(log_probabilities), [batch, length, graph.config.vocab_size])
    if "cls/seq_relationship/output_weights" in graph.names:
        labels = tf.zeros([batch], tf.int32)
        *_, log_probabilities = program.get_next_sentence_output(graph.config, outputs["pooled_output"], labels)
        outputs["nsp_logits"] = _logits(log_probabilities)
    for prefix, kind in _OTHER_TASKS.items():
        if f"{prefix}output_weights" in graph.names:
            outputs["task_logits"] = _scores(graph, prefix, outputs, kind)
    return graph.answers(outputs)


def classification(checkpoint: str, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the logits of run_classifier's model."""
    graph = Graph(checkpoint, inputs)
    classes = dict(tf.train.list_variables(checkpoint))["output_weights"][0]
    labels = tf.zeros([inputs["token_ids"].shape[0]], tf.int32)
    *_, logits, _ = original_module("run_classifier").create_model(
        graph.config, False, graph.ids, graph.mask, graph.segments, labels, classes, False
    )
    return graph.answers({"task_logits": logits})


def spans(checkpoint: str, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the logits of run_squad's model."""
    graph = Graph(checkpoint, inputs)
    start, end = original_module("run_squad").create_model(
        graph.config, False, graph.ids, graph.mask, graph.segments, False
    )
    return graph.answers({"task_logits": tf.stack([start, end], axis=-1)})


def _logits(log_probabilities: tf.Tensor) -> tf.Tensor:
    operation = log_probabilities.op
    if operation.type != "LogSoftmax":
        raise SystemExit(f"the log probabilities must come from LogSoftmax. Received: {operation.type}")
    return operation.inputs[0]


def _scores(graph: Graph, prefix: str, outputs: dict[str, tf.Tensor], kind: str) -> tf.Tensor:
    shapes = dict(tf.train.list_variables(graph.checkpoint))
    weights, bias = (
        tf.get_variable(f"{prefix}{name}", shapes[f"{prefix}{name}"]) for name in ("output_weights", "output_bias")
    )
    features = outputs["sequence_output" if kind == "token" else "pooled_output"]
    return tf.einsum("...h,ch->...c", features, weights) + bias


def main() -> None:
    """Reads the inputs, writes the outputs, and prints the program and its version."""
    checkout, checkpoint, inputs_path, outputs_path = sys.argv[1:]
    tf.disable_v2_behavior()
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.contrib = SimpleNamespace(layers=SimpleNamespace(layer_norm=layer_norm))
    tf.layers = SimpleNamespace(dense=dense)
    sys.modules["tensorflow"] = tf
    sys.path.insert(0, checkout)
    with np.load(inputs_path) as file:
        inputs = {name: file[name] for name in file.files}
    names = {name for name, _ in tf.train.list_variables(checkpoint)}
    outputs: dict[str, np.ndarray] = {}
    programs = {"": pretraining, "output_weights": classification, "cls/squad/output_weights": spans}
    for name, program in programs.items():
        if not name or name in names:
            with tf.Graph().as_default():
                outputs |= program(checkpoint, inputs)
    np.savez(outputs_path, **outputs)  # type: ignore[arg-type]
    revision = subprocess.run(
        ["git", "-C", checkout, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    commit = revision.stdout.strip() if revision.returncode == 0 else ""
    print(json.dumps({"by": f"google-research/bert {commit}".strip()}))


if __name__ == "__main__":
    main()

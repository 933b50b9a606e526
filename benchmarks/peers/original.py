"""Trains the original's graph, from a checkout of google-research/bert, in a TensorFlow 1 session.

The checkout is unchanged. The functions that TensorFlow has since removed, layer normalization of `tf.contrib` and
`tf.layers.dense`, come from the program that verifies conversions against the original.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from benchmarks.peers import batches
from benchmarks.peers.session import Session
from bert_tf.conversion.verify.programs.google_tf1 import dense, layer_norm

# Names of the shared arrays in the original.
_NAMES = {
    "input_ids": "token_ids",
    "input_mask": "padding_mask",
    "segment_ids": "segment_ids",
    "masked_lm_positions": "mask_positions",
    "masked_lm_ids": "mask_ids",
    "masked_lm_weights": "mask_weights",
    "next_sentence_labels": "next_sentence_labels",
}


def import_original(checkout: Path) -> tuple[Any, Any, Any]:
    """Returns the modules `modeling`, `optimization` and `run_pretraining` of a checkout."""
    tf.contrib = SimpleNamespace(layers=SimpleNamespace(layer_norm=layer_norm))
    tf.layers = SimpleNamespace(dense=dense)
    sys.modules["tensorflow"] = tf
    sys.path.insert(0, str(checkout))
    import modeling
    import optimization
    import run_pretraining

    return modeling, optimization, run_pretraining


def features() -> dict[str, tf.Tensor]:
    """Returns the next shared batch, under the original's names."""
    arrays = batches.batches()
    dataset = tf.data.Dataset.from_tensor_slices({name: arrays[ours] for name, ours in _NAMES.items()})
    return tf.data.make_one_shot_iterator(dataset.repeat().prefetch(2)).get_next()


def build_step(checkout: Path, size: str) -> tuple[tf.Tensor, tf.Operation]:
    """Returns the loss and the training operation, built like the original's `model_fn`."""
    modeling, optimization, run_pretraining = import_original(checkout)
    shape, batch = batches.config_of(size), features()
    config = modeling.BertConfig(
        vocab_size=shape.vocabulary_size,
        hidden_size=shape.hidden_dim,
        num_hidden_layers=shape.num_layers,
        num_attention_heads=shape.num_heads,
        intermediate_size=shape.intermediate_dim,
        hidden_dropout_prob=shape.dropout,
        attention_probs_dropout_prob=shape.dropout,
        max_position_embeddings=shape.max_sequence_length,
        type_vocab_size=shape.num_segments,
    )
    model = modeling.BertModel(
        config, True, batch["input_ids"], batch["input_mask"], batch["segment_ids"], use_one_hot_embeddings=False
    )
    masked_lm_loss, *_ = run_pretraining.get_masked_lm_output(
        config,
        model.get_sequence_output(),
        model.get_embedding_table(),
        batch["masked_lm_positions"],
        batch["masked_lm_ids"],
        batch["masked_lm_weights"],
    )
    next_sentence_loss, *_ = run_pretraining.get_next_sentence_output(
        config, model.get_pooled_output(), batch["next_sentence_labels"]
    )
    loss = masked_lm_loss + next_sentence_loss
    training = optimization.create_optimizer(
        loss, batches.LEARNING_RATE, batches.STEPS, batches.WARMUP_STEPS, use_tpu=False
    )
    return loss, training


def main() -> None:
    """Trains until stdin is closed."""
    parser = batches.arguments(__doc__)
    parser.add_argument("--checkout", type=Path, required=True, help="checkout of google-research/bert")
    args = parser.parse_args()
    if args.precision != "float32":
        parser.error("--precision must be float32, as in the original.")
    session = Session()
    tf.disable_v2_behavior()
    tf.set_random_seed(0)
    loss, training = build_step(args.checkout, args.size)
    threads = {"intra_op_parallelism_threads": args.threads, "inter_op_parallelism_threads": args.threads}
    with tf.Session(config=tf.ConfigProto(**threads)) as tensorflow_session:
        tensorflow_session.run(tf.global_variables_initializer())
        session.tell(parameters=int(sum(np.prod(variable.shape.as_list()) for variable in tf.trainable_variables())))
        while True:
            value, _ = tensorflow_session.run([loss, training])
            session.after_step(float(value))


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    main()

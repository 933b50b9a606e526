"""Creates the small checkpoints of the original for the tests, with the original's outputs for the fixed inputs.

    python -m tests.testdata.make_google_tf1 CHECKOUT

CHECKOUT is a checkout of google-research/bert; the environment is this project's. Each checkpoint is created in a
separate process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np

HERE = Path(__file__).parent
PEER = HERE.parents[1] / "bert_tf" / "conversion" / "verify" / "programs" / "google_tf1.py"
WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    "and",
    "saw",
    "two",
    "dogs",
    "run",
    "old",
    "river",
    "in",
    "##s",
    "##ing",
    "un",
]
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SHAPE = {
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 12,
    "initializer_range": 0.02,
    "intermediate_size": 20,
    "max_position_embeddings": 24,
    "num_attention_heads": 3,
    "num_hidden_layers": 2,
    "type_vocab_size": 2,
}
# The keys of multilingual and Chinese releases.
BESIDE = {
    "directionality": "bidi",
    "pooler_fc_size": 768,
    "pooler_num_attention_heads": 12,
    "pooler_num_fc_layers": 3,
    "pooler_size_per_head": 128,
    "pooler_type": "first_token_transform",
}
# By directory name: the program, additional keys of the configuration, and the casing of the word pieces.
CHECKPOINTS = {
    "google_tf1_pretrained": ("run_pretraining", {}, True),
    "google_tf1_multi_cased": ("run_classifier", BESIDE | {"hidden_act": "relu"}, False),
    "google_tf1_squad_v1": ("run_squad", {"hidden_act": "tanh", "attention_probs_dropout_prob": 0.2}, True),
}


def make(checkout: str, name: str) -> None:
    import tensorflow.compat.v1 as tf

    from bert_tf.conversion.verify.programs import google_tf1

    program, beside, lowercase = CHECKPOINTS[name]
    directory = HERE / name
    directory.mkdir(exist_ok=True)
    pieces = [*SPECIAL, *WORDS, *(["Rome", "Ann"] if not lowercase else [])]
    (directory / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    config = SHAPE | beside | {"vocab_size": len(pieces)}
    (directory / "bert_config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    tf.disable_v2_behavior()
    tf.set_random_seed(1)
    tf.contrib = SimpleNamespace(layers=SimpleNamespace(layer_norm=google_tf1.layer_norm))
    tf.layers = SimpleNamespace(dense=google_tf1.dense)
    sys.modules["tensorflow"] = tf
    sys.path.insert(0, checkout)
    inputs = fixed(config)
    graph = google_tf1.Graph.__new__(google_tf1.Graph)
    graph.modeling = google_tf1.original_module("modeling")
    graph.config = graph.modeling.BertConfig.from_dict(config)
    save(tf, google_tf1.original_module(program), graph, inputs, directory, program)


def save(tf, module, graph, inputs, directory, program) -> None:
    ids, mask, segments, positions = (tf.constant(inputs[n]) for n in
                                      ("token_ids", "padding_mask", "segment_ids", "mask_positions"))  # fmt: skip
    if program == "run_pretraining":
        model = graph.modeling.BertModel(graph.config, False, ids, mask, segments)
        masked, *_ = module.get_masked_lm_output(
            graph.config, model.get_sequence_output(), model.get_embedding_table(), positions,
            tf.ones_like(positions), tf.ones(positions.shape))  # fmt: skip
        labels = tf.zeros([len(inputs["token_ids"])], tf.int32)
        following, *_ = module.get_next_sentence_output(graph.config, model.get_pooled_output(), labels)
        graph.loss = masked + following
    elif program == "run_classifier":
        module.create_model(graph.config, False, ids, mask, segments, tf.constant([0, 1, 2, 0]), 3, False)
    else:
        module.create_model(graph.config, False, ids, mask, segments, False)
    steps = []
    if program == "run_pretraining":
        import optimization

        steps = [optimization.create_optimizer(graph.loss, 1e-3, 10, 0, False)]
    generator = np.random.default_rng(7)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for variable in tf.trainable_variables():
            centre = 1.0 if variable.name.endswith("gamma:0") else 0.0
            session.run(variable.assign(generator.normal(centre, 0.3, variable.shape.as_list()).astype(np.float32)))
        if steps:
            for _ in range(3):
                session.run(steps)
            tf.train.Saver().save(session, str(directory / "model.ckpt"), 3, write_meta_graph=False)
            # Like a run whose directory was moved.
            (directory / "checkpoint").write_text('model_checkpoint_path: "/elsewhere/model.ckpt-3"\n')
            return
        version = tf.train.SaverDef.V1 if program == "run_squad" else tf.train.SaverDef.V2
        saver = tf.train.Saver(write_version=version)
        saver.save(session, str(directory / "bert_model.ckpt"), write_meta_graph=False, write_state=False)


def fixed(config) -> dict[str, np.ndarray]:
    from bert_tf.config import BertConfig
    from bert_tf.conversion.verify.probe_inputs import fixed_inputs

    return fixed_inputs(BertConfig(
        vocabulary_size=config["vocab_size"], hidden_dim=12, num_heads=3, intermediate_dim=20,
        max_sequence_length=config["max_position_embeddings"]))  # fmt: skip


def answer(checkout: str, name: str) -> None:
    directory = HERE / name
    prefix = directory / ("model.ckpt-3" if CHECKPOINTS[name][0] == "run_pretraining" else "bert_model.ckpt")
    with tempfile.TemporaryDirectory() as folder:
        given, taken = f"{folder}/inputs.npz", f"{folder}/outputs.npz"
        np.savez(given, **fixed(json.loads((directory / "bert_config.json").read_text())))
        subprocess.run([sys.executable, PEER, checkout, prefix, given, taken], check=True)
        with np.load(taken) as file:
            np.savez_compressed(directory / "outputs.npz", **{output: file[output] for output in file.files})


if __name__ == "__main__":
    if len(sys.argv) > 2:
        make(*sys.argv[1:])
        answer(*sys.argv[1:])
    else:
        for name in CHECKPOINTS:
            subprocess.run([sys.executable, "-m", "tests.testdata.make_google_tf1", sys.argv[1], name], check=True)

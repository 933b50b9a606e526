"""Creates the small checkpoints of the Model Garden for the tests, with its outputs for the fixed inputs.

    PYTHON tests/testdata/make_model_garden.py INPUTS.npz

PYTHON is an interpreter with tf-models-official. INPUTS are those of `fixed_inputs` for the configuration of
`google_tf1_pretrained`, whose word pieces these checkpoints share.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
PEER = HERE.parents[1] / "bert_tf" / "conversion" / "verify" / "programs" / "model_garden.py"
KINDS = ("encoder", "pretrainer", "classifier", "tokens", "spans", "legacy")


def make(kind: str, directory: Path) -> None:
    import tensorflow as tf
    import tf_keras
    from official.legacy.bert import configs
    from official.modeling import tf_utils
    from official.nlp.modeling import layers, models

    sys.path.insert(0, str(PEER.parent))
    import model_garden as peer

    config = configs.BertConfig.from_json_file(str(directory / "bert_config.json"))
    encoder = peer.build_encoder(config, "BertEncoderV2" if kind in ("pretrainer", "tokens") else "BertEncoder")
    gelu = tf_utils.get_activation("gelu")
    beside = {}
    if kind == "encoder":
        model = encoder
    elif kind == "pretrainer":
        head = layers.ClassificationHead(config.hidden_size, 2, dropout_rate=0.1, name="next_sentence")
        model = models.BertPretrainerV2(encoder, mlm_activation=gelu, classification_heads=[head])
        model(model.inputs)
    elif kind == "classifier":
        model = models.BertClassifier(encoder, 3, use_encoder_pooler=False)
    elif kind == "tokens":
        model = models.BertTokenClassifier(encoder, 4)
    elif kind == "spans":
        model = models.BertSpanLabeler(encoder)
    else:
        encoder = peer.build_encoder(config, "BertEncoder", dict_outputs=False)
        model = models.BertPretrainer(encoder, 2, 4, activation=gelu)
    generator = np.random.default_rng(KINDS.index(kind))
    for variable in model.trainable_variables:
        centre = 1.0 if "gamma" in variable.name else 0.0
        variable.assign(generator.normal(centre, 0.3, variable.shape))
    if kind == "pretrainer":
        optimizer = tf_keras.optimizers.legacy.Adam(1e-3)
        optimizer.apply_gradients((tf.ones_like(variable), variable) for variable in model.trainable_variables)
        step = tf.Variable(7, dtype=tf.int64)
        beside = {"optimizer": optimizer, "global_step": step, **model.checkpoint_items}
    tf.train.Checkpoint(model=model, **beside).save(str(directory / "bert_model.ckpt"))


def answer(inputs: str, directory: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        taken = f"{folder}/outputs.npz"
        subprocess.run([sys.executable, PEER, directory / "bert_model.ckpt-1", inputs, taken], check=True)
        with np.load(taken) as file:
            np.savez_compressed(directory / "outputs.npz", **{output: file[output] for output in file.files})


if __name__ == "__main__":
    if len(sys.argv) > 2:
        make(sys.argv[2], Path(sys.argv[3]))
    else:
        for kind in KINDS:
            directory = HERE / f"model_garden_{kind}"
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            for name in ("bert_config.json", "vocab.txt"):
                shutil.copy(HERE / "google_tf1_pretrained" / name, directory / name)
            description = json.loads((directory / "bert_config.json").read_text())
            description |= {"embedding_size": None, "backward_compatible": True}
            (directory / "bert_config.json").write_text(json.dumps(description, indent=2, sort_keys=True) + "\n")
            subprocess.run([sys.executable, __file__, sys.argv[1], kind, directory], check=True)
            answer(sys.argv[1], directory)

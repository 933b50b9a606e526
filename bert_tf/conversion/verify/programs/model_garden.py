"""Computes outputs with the models of the Model Garden (tf-models-official).

    python model_garden.py CHECKPOINT INPUTS.npz OUTPUTS.npz [ENCODER]

The program recognizes the objects of a checkpoint by their contents, builds and restores them. Every variable must come
from the checkpoint. ENCODER is `BertEncoder` or `BertEncoderV2`; default: `BertEncoder`.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from official.legacy.bert import configs
from official.modeling import tf_utils
from official.nlp.modeling import layers, models, networks
from tensorflow.core.protobuf import trackable_object_graph_pb2

_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


class Objects:
    """The object graph of a checkpoint."""

    def __init__(self, checkpoint: str) -> None:
        reader = tf.train.load_checkpoint(checkpoint)
        graph = trackable_object_graph_pb2.TrackableObjectGraph()
        graph.ParseFromString(reader.get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH"))
        self._shapes = reader.get_variable_to_shape_map()
        self._nodes = graph.nodes

    def children(self, *path: str) -> dict[str, int]:
        """Returns the children of the object at a path of names, as node ids by name."""
        node = 0
        for name in path:
            node = {child.local_name: child.node_id for child in self._nodes[node].children}[name]
        return {child.local_name: child.node_id for child in self._nodes[node].children}

    def shape(self, *path: str) -> list[int]:
        """Returns the shape of the variable at a path of names."""
        node = self._nodes[self.children(*path[:-1])[path[-1]]]
        return self._shapes[node.attributes[0].checkpoint_key]


def build_encoder(config: configs.BertConfig, kind: str, *, dict_outputs: bool = True) -> Any:
    """Builds an encoder as `official.legacy.bert.bert_models` does."""
    encoder = getattr(networks, kind)(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        num_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        intermediate_size=config.intermediate_size,
        activation=tf_utils.get_activation(config.hidden_act),
        dropout_rate=config.hidden_dropout_prob,
        attention_dropout_rate=config.attention_probs_dropout_prob,
        max_sequence_length=config.max_position_embeddings,
        type_vocab_size=config.type_vocab_size,
        dict_outputs=dict_outputs,
    )
    encoder(encoder.inputs)
    return encoder


def build_model(found: Objects, owner: tuple[str, ...], encoder: Any, config: configs.BertConfig) -> Any:
    """Builds the model whose objects are at `owner`; returns the encoder if there is no such model."""
    holds = found.children(*owner)
    if "encoder_network" in holds:
        return build_pretrainer(found, owner, encoder, config)
    if "classification" in holds:
        gelu = tf_utils.get_activation(config.hidden_act)
        return models.BertPretrainer(encoder, 2, num_token_predictions=1, activation=gelu)
    if "span_labeling" in holds:
        return models.BertSpanLabeler(encoder)
    if "classifier" in holds and "out_proj" in found.children(*owner, "classifier"):
        classes = found.shape(*owner, "classifier", "out_proj", "kernel")[1]
        pooler = "dense" not in found.children(*owner, "classifier")
        return models.BertClassifier(encoder, classes, use_encoder_pooler=pooler)
    if "classifier" in holds:
        return models.BertTokenClassifier(encoder, found.shape(*owner, "classifier", "kernel")[1])
    return encoder


def build_pretrainer(found: Objects, owner: tuple[str, ...], encoder: Any, config: configs.BertConfig) -> Any:
    """Builds `BertPretrainerV2` with the heads of the checkpoint."""
    heads = found.children(*owner, "classification_heads") if "classification_heads" in found.children(*owner) else {}
    heads_built = [
        layers.ClassificationHead(
            inner_dim=found.shape(*owner, "classification_heads", number, "dense", "kernel")[1],
            num_classes=found.shape(*owner, "classification_heads", number, "out_proj", "kernel")[1],
            name="next_sentence",
        )
        for number in heads
    ]
    pretrainer = models.BertPretrainerV2(
        encoder, mlm_activation=tf_utils.get_activation(config.hidden_act), classification_heads=heads_built
    )
    pretrainer(pretrainer.inputs)
    return pretrainer


def restored(checkpoint: str, kind: str) -> tuple[Any, Any, Any]:
    """Returns the encoder, the model and the masked language model's head with the values of a checkpoint."""
    config = configs.BertConfig.from_json_file(str(Path(checkpoint).parent / "bert_config.json"))
    graph = Objects(checkpoint)
    names = graph.children()
    owner = ("model",) if "model" in names else ()
    encoder = build_encoder(config, kind, dict_outputs="classification" not in graph.children(*owner))
    model = build_model(graph, owner, encoder, config) if owner or "encoder" not in names else encoder
    objects: dict[str, Any] = {"model": model} if owner else {}
    masked_lm = getattr(model, "masked_lm", None)
    if "encoder" in names:
        objects["encoder"] = encoder
    if "masked_lm" in names:
        masked_lm = masked_lm or build_pretrainer(graph, (), encoder, config).masked_lm
        objects["masked_lm"] = masked_lm
    status = tf.train.Checkpoint(**objects).read(checkpoint) if objects else tf.train.Checkpoint(model).read(checkpoint)
    status.expect_partial().assert_existing_objects_matched()
    return encoder, model, masked_lm


def answers(checkpoint: str, inputs: dict[str, np.ndarray], kind: str) -> dict[str, np.ndarray]:
    """Returns the outputs of the restored objects."""
    encoder, model, masked_lm = restored(checkpoint, kind)
    named = {"input_word_ids": "token_ids", "input_mask": "padding_mask", "input_type_ids": "segment_ids"}
    features = {name: tf.constant(inputs[ours]) for name, ours in named.items()}
    encoded, names = encoder(features), ("sequence_output", "pooled_output")
    outputs = {name: encoded[name] if isinstance(encoded, dict) else encoded[place] for place, name in enumerate(names)}
    if masked_lm is not None:
        positions = tf.constant(inputs["mask_positions"])
        outputs["mlm_logits"] = masked_lm(outputs["sequence_output"], masked_positions=positions)
    heads = getattr(model, "classification_heads", None) or []
    for head in heads:
        outputs["pooled_output"] = head(outputs["sequence_output"], only_project=True)
        outputs["nsp_logits"] = head(outputs["sequence_output"])
    if isinstance(model, models.BertPretrainer):
        outputs["nsp_logits"] = model.classification(outputs["pooled_output"])
    elif isinstance(model, models.BertClassifier):
        outputs["task_logits"] = model(features)
        if not model.use_encoder_pooler:
            outputs["pooled_output"] = model.classifier(outputs["sequence_output"], only_project=True)
    elif isinstance(model, models.BertTokenClassifier):
        outputs["task_logits"] = model(features)["logits"]
    elif isinstance(model, models.BertSpanLabeler):
        outputs["task_logits"] = tf.stack(model(features), axis=-1)
    return {name: output.numpy() for name, output in outputs.items()}


def main() -> None:
    """Reads the inputs, writes the outputs, and prints the program and its version."""
    checkpoint, inputs_path, outputs_path = sys.argv[1:4]
    # Accelerators multiply float32 with reduced precision.
    tf.config.set_visible_devices([], "GPU")
    kind = sys.argv[4] if len(sys.argv) > 4 else "BertEncoder"
    with np.load(inputs_path) as file:
        inputs = {name: file[name] for name in file.files}
    np.savez(outputs_path, **answers(checkpoint, inputs, kind))  # type: ignore[arg-type]
    print(json.dumps({"by": f"tf-models-official {importlib.metadata.version('tf-models-official')} {kind}"}))


if __name__ == "__main__":
    main()

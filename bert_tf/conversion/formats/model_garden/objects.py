"""Reads, finds and builds the objects that hold BERT's tensors in the Model Garden's checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import trackable_object_graph_pb2

from bert_tf.config import BertConfig
from bert_tf.conversion.checkpoint import Checkpoint, conversion_errors
from bert_tf.conversion.formats.name_table import NameTable
from bert_tf.conversion.formats.tf_checkpoint import OBJECT_GRAPH, TensorFiles
from bert_tf.conversion.tensors import MLM_BIAS, WORD_EMBEDDINGS, ConversionError, Heads, expected_shapes

_VALUE = "VARIABLE_VALUE"
_EMBEDDINGS = ("_embedding_layer", "_type_embedding_layer", "_position_embedding_layer")
_NORMALIZATION, _LAYERS, _POOLER = "_embedding_norm_layer", "_transformer_layers", "_pooler_layer"
_BLOCK, _NUMBERED = f"{_LAYERS}.{{i}}", "layer_with_weights-"
# Models of tasks: the name of their head, and the path of its dense layer.
_TASKS = {
    "sequence_classification": ("classifier", "classifier.out_proj"),
    "token_classification": ("classifier", "classifier"),
    "question_answering": ("span_labeling", f"span_labeling.{_NUMBERED}0"),
}
_HEADS = ("masked_lm", "next_sentence", "classifier", "span_labeling")
_NEXT_SENTENCE_POOLER = "next_sentence.pooler_dense"
# Paths of variables from an encoder by the names of `BertEncoderV2`, or from a model.
TABLE = NameTable(
    rows={
        WORD_EMBEDDINGS: f"{_EMBEDDINGS[0]}.embeddings",
        "bert/embeddings/token_type_embeddings": f"{_EMBEDDINGS[1]}.embeddings",
        "bert/embeddings/position_embeddings": f"{_EMBEDDINGS[2]}.embeddings",
        "bert/embeddings/LayerNorm": _NORMALIZATION,
        "bert/encoder/layer_{i}/attention/self/query": f"{_BLOCK}._attention_layer._query_dense",
        "bert/encoder/layer_{i}/attention/self/key": f"{_BLOCK}._attention_layer._key_dense",
        "bert/encoder/layer_{i}/attention/self/value": f"{_BLOCK}._attention_layer._value_dense",
        "bert/encoder/layer_{i}/attention/output/dense": f"{_BLOCK}._attention_layer._output_dense",
        "bert/encoder/layer_{i}/attention/output/LayerNorm": f"{_BLOCK}._attention_layer_norm",
        "bert/encoder/layer_{i}/intermediate/dense": f"{_BLOCK}._intermediate_dense",
        "bert/encoder/layer_{i}/output/dense": f"{_BLOCK}._output_dense",
        "bert/encoder/layer_{i}/output/LayerNorm": f"{_BLOCK}._output_layer_norm",
        "bert/pooler/dense": _POOLER,
        "cls/predictions/transform/dense": "masked_lm.dense",
        "cls/predictions/transform/LayerNorm": "masked_lm.layer_norm",
        MLM_BIAS: "masked_lm.bias",
        "cls/seq_relationship": "next_sentence.out_proj",
        "": _TASKS["sequence_classification"][1],
        "cls/token": _TASKS["token_classification"][1],
        "cls/squad": _TASKS["question_answering"][1],
    },
    kinds={kind: f".{kind}" for kind in ("kernel", "bias", "gamma", "beta")}
    | {"output_weights": ".kernel", "output_bias": ".bias"},
    transposed=("output_weights",),
    by_head=True,
)


@dataclass(eq=False)
class Node:
    """An object of a checkpoint, which may have several names and parents; a variable has a name and a tensor's key."""

    children: dict[str, Node] = field(default_factory=dict)
    key: str | None = None
    variable: str = ""

    def at(self, path: str) -> Node | None:
        """Returns the object at a path of names joined by `.`; None if absent."""
        node: Node | None = self
        for name in path.split("."):
            node = node.children.get(name) if node is not None else None
        return node

    def variables(self) -> list[Node]:
        """Returns the distinct variables among its children."""
        return list(dict.fromkeys(child for child in self.children.values() if child.key))

    def below(self) -> Iterator[Node]:
        """Yields this object and all objects reachable from it, nearest first."""
        seen, waiting = {self}, [self]
        for node in waiting:
            yield node
            fresh = [child for child in dict.fromkeys(node.children.values()) if child not in seen]
            seen.update(fresh)
            waiting += fresh


def read_graph(files: TensorFiles) -> Node:
    """Returns the root object of a checkpoint. Raises ConversionError if the object graph cannot be read."""
    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    try:
        graph.ParseFromString(files.array(OBJECT_GRAPH))
    except (DecodeError, TypeError) as error:
        raise ConversionError(f"{files.prefix}: the object graph cannot be read: {error}") from error
    nodes = [Node() for _ in graph.nodes]
    for node, kept in zip(nodes, graph.nodes, strict=True):
        node.children = {child.local_name: nodes[child.node_id] for child in kept.children}
        for attribute in kept.attributes:
            if attribute.name == _VALUE and attribute.checkpoint_key in files:
                node.key, node.variable = attribute.checkpoint_key, attribute.full_name
    if not nodes:
        raise ConversionError(f"{files.prefix}: the object graph must hold objects. Received: none")
    return nodes[0]


def holder(**children: Any) -> tf.Module:
    """Returns an object that holds `children` by name; dictionaries among them become such objects."""
    module = tf.Module()
    for name, child in children.items():
        setattr(module, name, holder(**child) if isinstance(child, dict) else child)
    return module


@dataclass(frozen=True)
class Found:
    """Keys of the tensors by the original's names, and those of the encoder's pooler if a head's own replaces it."""

    keys: dict[str, str]
    replaced: tuple[str, ...]


@dataclass(frozen=True)
class _Layout:
    places: dict[str, Node]
    blocks: list[Node]

    def node(self) -> Node:
        """Returns the encoder with the names of `TABLE`."""
        children = dict(self.places)
        for name in _EMBEDDINGS:
            variables = children[name].variables()
            children[name] = Node({"embeddings": variables[0]} if len(variables) == 1 else {})
        blocks = {}
        for number, block in enumerate(self.blocks):
            attention = block.children.get("_attention_layer", Node()).children
            # Older encoders keep this layer beside the attention.
            older = {"_output_dense": node} if (node := block.at("_attention_output_dense")) else {}
            blocks[str(number)] = Node(block.children | {"_attention_layer": Node(older | attention)})
        return Node(children | {_LAYERS: Node(blocks)})


@conversion_errors()
def find_tensors(root: Node) -> Found | None:
    """Returns the locations of an encoder's and its heads' tensors; None if there is not exactly one encoder."""
    encoders = [layout for node in root.below() if (layout := _encoder_layout(node))]
    if len({layout.blocks[0] for layout in encoders}) != 1:
        return None
    model = root.at("model")
    owned = (model.children if model else {}) | root.children
    logits, pooler = _next_sentence(owned)
    if logits is None and "classifier" in owned:
        pooler = owned["classifier"].at("dense")
    owned["next_sentence"] = Node({"out_proj": logits} if logits else {})
    heads = {name: node for name, node in owned.items() if name in _HEADS}
    places = Node(encoders[0].node().children | heads)
    names = list(expected_shapes(BertConfig(num_layers=len(encoders[0].blocks)), Heads(True, True)))
    for task in _TASKS:
        names += list(expected_shapes(BertConfig(num_layers=1), Heads(task=task, num_labels=1)))[-2:]
    keys = _keys(places, names)
    poolers = _keys(Node({_POOLER: pooler or Node()}), ["bert/pooler/dense/kernel", "bert/pooler/dense/bias"])
    replaced = tuple(keys[name] for name, key in poolers.items() if keys.get(name, key) != key)
    return Found(keys | poolers, replaced)


def build_objects(checkpoint: Checkpoint) -> tuple[dict[str, Any], list[str]]:
    """Returns the objects of a Model Garden checkpoint by name, and the heads that it does not support."""
    heads = checkpoint.heads
    task = heads.task if heads.task in _TASKS else None
    next_sentence = heads.next_sentence and heads.masked_lm and not heads.task
    kept = Heads(heads.masked_lm, next_sentence, task, heads.num_labels)
    tree: dict[str, Any] = {}
    for name in expected_shapes(checkpoint.config, kept):
        *owners, last = TABLE.name(name).split(".")
        branch = tree
        for owner in owners:
            branch = branch.setdefault(owner, {})
        branch[last] = tf.Variable(TABLE.array(name, checkpoint))
    blocks = [holder(**block) for block in tree.pop(_LAYERS).values()]
    modules = {name: holder(**branch) for name, branch in tree.items()}
    places = {name: modules[name] for name in (*_EMBEDDINGS, _NORMALIZATION, _POOLER)}
    word, segment, position, normalization, pooler = places.values()
    # Keys use the names that come first: those in the functional model.
    ordered = enumerate((word, position, segment, normalization, *blocks, pooler))
    parts = {f"{_NUMBERED}{number}": layer for number, layer in ordered} | places | {_LAYERS: blocks}
    encoder = holder(**parts)
    objects: dict[str, Any] = {"encoder": encoder, "model": encoder}
    if heads.masked_lm:
        parts["encoder_network"] = encoder
        parts["masked_lm"] = objects["masked_lm"] = holder(
            embedding_table=word.embeddings, **tree["masked_lm"], **{"output_bias/bias": tree["masked_lm"]["bias"]}
        )
    if next_sentence:
        # The head gets a pooler of its own: an object shared by two others is restored into only one of them.
        dense = {kind: tf.Variable(variable) for kind, variable in tree[_POOLER].items()}
        objects[_NEXT_SENTENCE_POOLER] = holder(**dense)
        parts["classification_heads"] = [
            holder(dense=objects[_NEXT_SENTENCE_POOLER], out_proj=modules["next_sentence"].out_proj)
        ]
    if task:
        name = _TASKS[task][0]
        head = {f"{_NUMBERED}1": modules[name], "_network": encoder, name: modules[name]}
        objects["model"] = holder(**{f"{_NUMBERED}0": encoder}, **head)
    elif heads.masked_lm:
        objects["model"] = holder(**parts)
    if checkpoint.step is not None:
        objects["global_step"] = tf.Variable(checkpoint.step, dtype=tf.int64, trainable=False)
    return objects, [name for name in heads.names() if name not in kept.names()]


def _encoder_layout(node: Node) -> _Layout | None:
    """Returns an encoder's objects by the names of `BertEncoderV2`; None if the node is not an encoder."""
    layers = node.at(_LAYERS)
    names = (*_EMBEDDINGS, _NORMALIZATION, _POOLER)
    if layers is not None and layers.children and all(name in node.children for name in names):
        blocks = [layers.children[number] for number in sorted(layers.children, key=int)]
        return _Layout({name: node.children[name] for name in names}, blocks)
    # Older encoders name these objects only by their places in the functional model.
    numbers = [int(name.removeprefix(_NUMBERED)) for name in node.children if name.startswith(_NUMBERED)]
    numbered = [node.children[f"{_NUMBERED}{number}"] for number in sorted(numbers)]
    blocks = [child for child in numbered if "_attention_layer" in child.children]
    if not blocks or numbered[4:-1] != blocks:
        return None
    word, position, segment, normalization, *_, pooler = numbered
    return _Layout(dict(zip(names, (word, segment, position, normalization, pooler), strict=True)), blocks)


def _next_sentence(owned: dict[str, Node]) -> tuple[Node | None, Node | None]:
    """Returns the dense layer of the head for next sentence prediction, and its own pooler."""
    heads = list(owned["classification_heads"].children.values()) if "classification_heads" in owned else []
    if len(heads) == 1:
        dense, kernel = heads[0].at("dense"), heads[0].at("out_proj.kernel")
        named = kernel is not None and "next_sentence/" in kernel.variable
        if dense is not None and kernel is not None and (named or owned.get(_NEXT_SENTENCE_POOLER) is dense):
            return heads[0].at("out_proj"), dense
    return (owned["classification"].at(f"{_NUMBERED}0") if "classification" in owned else None), None


def _keys(node: Node, names: list[str]) -> dict[str, str]:
    return {name: found.key for name in names if (found := node.at(TABLE.name(name))) and found.key}

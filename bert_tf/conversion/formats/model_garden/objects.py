"""Finds and builds the objects that hold BERT's tensors in the Model Garden's checkpoints.

Attention projects from H to N heads of width D and back, so kernels are (H, N, D) and (N, D, H) in these objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from bert_tf.conversion.checkpoint import Checkpoint
from bert_tf.conversion.formats.model_garden.object_graph import Node, holder
from bert_tf.conversion.tensors import MLM_BIAS, TASK_PREFIXES, WORD_EMBEDDINGS

# Paths by the original's name. The first one that exists is read, and the first one is written.
_EMBEDDINGS = {
    WORD_EMBEDDINGS: "_embedding_layer",
    "bert/embeddings/token_type_embeddings": "_type_embedding_layer",
    "bert/embeddings/position_embeddings": "_position_embedding_layer",
}
_NORMALIZATION, _LAYERS, _POOLER = "_embedding_norm_layer", "_transformer_layers", "_pooler_layer"
_BLOCK = {
    "attention/self/query": ("_attention_layer._query_dense",),
    "attention/self/key": ("_attention_layer._key_dense",),
    "attention/self/value": ("_attention_layer._value_dense",),
    "attention/output/dense": ("_attention_layer._output_dense", "_attention_output_dense"),
    "attention/output/LayerNorm": ("_attention_layer_norm",),
    "intermediate/dense": ("_intermediate_dense",),
    "output/dense": ("_output_dense",),
    "output/LayerNorm": ("_output_layer_norm",),
}
_TRANSFORM = {
    "cls/predictions/transform/dense": "dense",
    "cls/predictions/transform/LayerNorm": "layer_norm",
}
_KINDS = ("kernel", "bias", "gamma", "beta")
_NUMBERED = "layer_with_weights-"
# Names of the head of each task in the models.
_TASKS = {
    "sequence_classification": "classifier",
    "token_classification": "classifier",
    "question_answering": "span_labeling",
}
_NEXT_SENTENCE, _NEXT_SENTENCE_POOLER = "cls/seq_relationship/", "next_sentence.pooler_dense"


@dataclass(frozen=True)
class Found:
    """Locations of the tensors.

    Args:
        keys: keys of the tensors by the original's names.
        replaced: keys of the encoder's pooler if a head's own pooler replaces it.
    """

    keys: dict[str, str]
    replaced: tuple[str, ...]


@dataclass(frozen=True)
class _Layout:
    places: dict[str, Node]
    blocks: list[Node]


def find_tensors(root: Node) -> Found | None:
    """Returns the locations of an encoder's and its heads' tensors; None if there is not exactly one encoder."""
    encoders = [layout for node in root.below() if (layout := _encoder_layout(node))]
    if len({layout.blocks[0] for layout in encoders}) != 1:
        return None
    keys = dict(_encoder_keys(encoders[0]))
    owned: dict[str, Node] = {}
    for owner in (root, root.at("model")):
        owned |= {name: node for name, node in (owner.children if owner else {}).items() if name not in owned}
    keys |= _masked_lm_keys(owned.get("masked_lm"))
    scores, pooler = _scores(owned)
    keys |= scores
    pooler_keys = dict(_kinds("bert/pooler/dense", pooler)) if pooler else {}
    replaced = tuple(keys[name] for name in pooler_keys if name in keys and keys[name] != pooler_keys[name])
    return Found(keys | pooler_keys, replaced)


def build_objects(checkpoint: Checkpoint) -> tuple[dict[str, Any], list[str]]:
    """Returns the objects of a Model Garden checkpoint by name, and the heads that it does not support."""
    build, heads = _Build(checkpoint), checkpoint.heads
    parts = build.encoder()
    encoder = holder(**parts)
    objects: dict[str, Any] = {"encoder": encoder, "model": encoder}
    with_next_sentence = heads.next_sentence and heads.masked_lm and not heads.task
    if heads.masked_lm:
        objects["masked_lm"] = build.masked_lm(encoder)
    if with_next_sentence:
        # The head gets a pooler of its own: an object shared by two others is restored into only one of them.
        head = holder(dense=build.dense("bert/pooler/dense"), out_proj=build.scores(_NEXT_SENTENCE))
        objects[_NEXT_SENTENCE_POOLER] = head.dense
    if heads.task in _TASKS:
        objects["model"] = holder(**build.task(encoder, heads.task))
    elif heads.masked_lm:
        lists = {"classification_heads": [head]} if with_next_sentence else {}
        objects["model"] = holder(**parts, encoder_network=encoder, masked_lm=objects["masked_lm"], **lists)
    if checkpoint.step is not None:
        objects["global_step"] = tf.Variable(checkpoint.step, dtype=tf.int64, trainable=False)
    lost = ["next_sentence"] if heads.next_sentence and not with_next_sentence else []
    return objects, lost + ([heads.task] if heads.task and heads.task not in _TASKS else [])


class _Build:
    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        config = checkpoint.config
        self._by_head = (config.num_heads, config.hidden_dim // config.num_heads)

    def encoder(self) -> dict[str, Any]:
        """Returns an encoder's objects; their places in the functional model come first, since keys use those names."""
        places = {place: holder(embeddings=self._variable(name)) for name, place in _EMBEDDINGS.items()}
        places[_NORMALIZATION] = self._normalization("bert/embeddings/LayerNorm")
        blocks = [self._block(f"bert/encoder/layer_{number}") for number in range(self._checkpoint.config.num_layers)]
        places[_POOLER] = self.dense("bert/pooler/dense")
        word, segment, position = (places[place] for place in _EMBEDDINGS.values())
        ordered = (word, position, segment, places[_NORMALIZATION], *blocks, places[_POOLER])
        numbered = {f"{_NUMBERED}{number}": layer for number, layer in enumerate(ordered)}
        return numbered | places | {_LAYERS: blocks}

    def masked_lm(self, encoder: tf.Module) -> tf.Module:
        bias = self._variable(MLM_BIAS)
        return holder(
            embedding_table=encoder._embedding_layer.embeddings,
            dense=self.dense("cls/predictions/transform/dense"),
            layer_norm=self._normalization("cls/predictions/transform/LayerNorm"),
            bias=bias,
            **{"output_bias/bias": bias},
        )

    def task(self, encoder: tf.Module, task: str) -> dict[str, Any]:
        """Returns the objects of a task's model."""
        scores = self.scores(TASK_PREFIXES[task])
        heads = {
            "sequence_classification": lambda: holder(out_proj=scores),
            "token_classification": lambda: scores,
            "question_answering": lambda: holder(**{f"{_NUMBERED}0": scores}),
        }
        head = heads[task]()
        return {f"{_NUMBERED}0": encoder, f"{_NUMBERED}1": head, "_network": encoder, _TASKS[task]: head}

    def dense(self, name: str, kernel: tuple[int, ...] = (), bias: tuple[int, ...] = ()) -> tf.Module:
        return holder(kernel=self._variable(f"{name}/kernel", kernel), bias=self._variable(f"{name}/bias", bias))

    def scores(self, prefix: str) -> tf.Module:
        weights = self._checkpoint.array(f"{prefix}output_weights")
        return holder(kernel=tf.Variable(weights.T), bias=self._variable(f"{prefix}output_bias"))

    def _block(self, name: str) -> tf.Module:
        hidden = self._checkpoint.config.hidden_dim
        self_attention = f"{name}/attention/self"
        attention = {
            f"_{part}_dense": self.dense(f"{self_attention}/{part}", (hidden, *self._by_head), self._by_head)
            for part in ("query", "key", "value")
        }
        attention["_output_dense"] = self.dense(f"{name}/attention/output/dense", (*self._by_head, hidden))
        return holder(
            _attention_layer=holder(**attention),
            _attention_layer_norm=self._normalization(f"{name}/attention/output/LayerNorm"),
            _intermediate_dense=self.dense(f"{name}/intermediate/dense"),
            _output_dense=self.dense(f"{name}/output/dense"),
            _output_layer_norm=self._normalization(f"{name}/output/LayerNorm"),
        )

    def _normalization(self, name: str) -> tf.Module:
        return holder(gamma=self._variable(f"{name}/gamma"), beta=self._variable(f"{name}/beta"))

    def _variable(self, name: str, shape: tuple[int, ...] = ()) -> tf.Variable:
        array = self._checkpoint.array(name)
        return tf.Variable(array.reshape(shape) if shape else array)


def _encoder_layout(node: Node) -> _Layout | None:
    """Returns an encoder's objects by the names of `BertEncoderV2`; None if the node is not an encoder."""
    layers = node.at(_LAYERS)
    names = (*_EMBEDDINGS.values(), _NORMALIZATION, _POOLER)
    if layers is not None and layers.children and all(name in node.children for name in names):
        blocks = [layers.children[number] for number in sorted(layers.children, key=int)]
        return _Layout({name: node.children[name] for name in names}, blocks)
    # Older encoders name these objects only by their places in the functional model.
    numbered = [child for _, child in sorted(_numbered(node).items())]
    blocks = [child for child in numbered if "_attention_layer" in child.children]
    if not blocks or numbered[4:-1] != blocks:
        return None
    word, position, segment, normalization, *_, pooler = numbered
    return _Layout(dict(zip(names, (word, segment, position, normalization, pooler), strict=True)), blocks)


def _numbered(node: Node) -> dict[int, Node]:
    numbered = {
        name.removeprefix(_NUMBERED): child for name, child in node.children.items() if name.startswith(_NUMBERED)
    }
    return {int(number): child for number, child in numbered.items()}


def _encoder_keys(layout: _Layout) -> Iterator[tuple[str, str]]:
    for name, place in _EMBEDDINGS.items():
        variables = layout.places[place].variables()
        if len(variables) == 1 and variables[0].key:
            yield name, variables[0].key
    yield from _kinds("bert/embeddings/LayerNorm", layout.places[_NORMALIZATION])
    yield from _kinds("bert/pooler/dense", layout.places[_POOLER])
    for number, block in enumerate(layout.blocks):
        for name, places in _BLOCK.items():
            part = next((node for place in places if (node := block.at(place))), None)
            yield from _kinds(f"bert/encoder/layer_{number}/{name}", part)


def _masked_lm_keys(node: Node | None) -> dict[str, str]:
    if node is None:
        return {}
    keys = {MLM_BIAS: bias.key} if (bias := node.at("bias")) and bias.key else {}
    for name, place in _TRANSFORM.items():
        keys |= dict(_kinds(name, node.at(place)))
    return keys


def _scores(owned: dict[str, Node]) -> tuple[dict[str, str], Node | None]:
    """Returns the tensors of sentence-level and task heads, and the head's own pooler if it has one."""
    heads = list(owned["classification_heads"].children.values()) if "classification_heads" in owned else []
    if len(heads) == 1 and _is_next_sentence(heads[0], owned):
        return dict(_outputs(_NEXT_SENTENCE, heads[0].at("out_proj"))), heads[0].at("dense")
    if "classification" in owned and (logits := owned["classification"].at(f"{_NUMBERED}0")):
        return dict(_outputs(_NEXT_SENTENCE, logits)), None
    if "span_labeling" in owned:
        return dict(_outputs(TASK_PREFIXES["question_answering"], owned["span_labeling"].at(f"{_NUMBERED}0"))), None
    classifier = owned.get("classifier")
    if classifier is not None and (logits := classifier.at("out_proj")):
        return dict(_outputs(TASK_PREFIXES["sequence_classification"], logits)), classifier.at("dense")
    return dict(_outputs(TASK_PREFIXES["token_classification"], classifier)), None


def _is_next_sentence(head: Node, owned: dict[str, Node]) -> bool:
    dense, kernel = head.at("dense"), head.at("out_proj.kernel")
    if dense is None or kernel is None:
        return False
    return owned.get(_NEXT_SENTENCE_POOLER) is dense or "next_sentence/" in kernel.variable


def _kinds(name: str, node: Node | None) -> Iterator[tuple[str, str]]:
    for kind, child in (node.children if node else {}).items():
        if kind in _KINDS and child.key:
            yield f"{name}/{kind}", child.key


def _outputs(prefix: str, node: Node | None) -> Iterator[tuple[str, str]]:
    for kind, name in (("kernel", "output_weights"), ("bias", "output_bias")):
        child = node.at(kind) if node else None
        if child and child.key:
            yield f"{prefix}{name}", child.key

"""Reads and writes the object graph of TensorFlow 2 checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import trackable_object_graph_pb2

from bert_tf.conversion.formats.tf_checkpoint import OBJECT_GRAPH, TensorFiles
from bert_tf.conversion.tensors import ConversionError

_VALUE = "VARIABLE_VALUE"


@dataclass(eq=False)
class Node:
    """An object of a checkpoint.

    Args:
        children: objects held by this one, by name; an object may have several names and parents.
        key: key of its tensor; None if it is not a variable.
        variable: name of the variable; empty if it is not a variable.
    """

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
    """Returns an object that holds `children` by name; those that are None are left out."""
    module = tf.Module()
    for name, child in children.items():
        if child is not None:
            setattr(module, name, child)
    return module


def write_objects(prefix: Path, children: dict[str, Any]) -> None:
    """Writes a checkpoint of the objects in `children`."""
    tf.train.Checkpoint(**children).write(str(prefix))

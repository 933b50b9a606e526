"""The objects of a checkpoint that TensorFlow 2 wrote: which holds which, under what name, and what they keep."""

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
    """One object.

    Args:
        children: objects that it holds, by name; the same object may have several names and holders.
        key: of the tensor that it keeps; None where it is no variable.
        variable: the variable's own name; empty where it is none.
    """

    children: dict[str, Node] = field(default_factory=dict)
    key: str | None = None
    variable: str = ""

    def at(self, path: str) -> Node | None:
        """Returns the object at the end of names joined by `.`, None where there is none."""
        found: Node | None = self
        for name in path.split("."):
            found = found.children.get(name) if found is not None else None
        return found

    def variables(self) -> list[Node]:
        """Returns the variables that it holds itself, each once."""
        return list(dict.fromkeys(child for child in self.children.values() if child.key))

    def below(self) -> Iterator[Node]:
        """Yields this object and all that can be reached from it, nearest first."""
        seen, waiting = {self}, [self]
        for node in waiting:
            yield node
            fresh = [child for child in dict.fromkeys(node.children.values()) if child not in seen]
            seen.update(fresh)
            waiting += fresh


def read_graph(files: TensorFiles) -> Node:
    """Returns the object that a checkpoint was written from. Raises ConversionError where it cannot be read."""
    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    try:
        graph.ParseFromString(files.array(OBJECT_GRAPH))
    except (DecodeError, TypeError) as error:
        raise ConversionError(f"{files.prefix}: its objects cannot be read: {error}") from error
    nodes = [Node() for _ in graph.nodes]
    for node, kept in zip(nodes, graph.nodes, strict=True):
        node.children = {child.local_name: nodes[child.node_id] for child in kept.children}
        for attribute in kept.attributes:
            if attribute.name == _VALUE and attribute.checkpoint_key in files:
                node.key, node.variable = attribute.checkpoint_key, attribute.full_name
    if not nodes:
        raise ConversionError(f"{files.prefix}: must hold objects. Received: none")
    return nodes[0]


def holder(**children: Any) -> tf.Module:
    """Returns an object that holds others by name, `None` left out."""
    made = tf.Module()
    for name, child in children.items():
        if child is not None:
            setattr(made, name, child)
    return made


def write_objects(prefix: Path, children: dict[str, Any]) -> None:
    """Writes a checkpoint of the objects that `children` names."""
    tf.train.Checkpoint(**children).write(str(prefix))

"""Compares the operations of a SavedModel with those of the releases of TF Serving.

`tf_serving.json` lists the operations that each release registers (benchmarks/tf_serving_operations.py). It does not
list the types that their kernels take, and TensorFlow Decision Forests is left out.

What TensorFlow 2.12 to 2.21 do with what they do not know, tried with their C API:

| | |
|---|---|
| operation in the graph itself | loading fails |
| operation in a function that the graph calls | the first call fails; with warm-up requests, while the server loads |
| operation in a function that nothing calls | no effect |
| attribute | logged and ignored, as if it had its default |

The loader of a server (tensorflow/cc/saved_model/loader.cc) hands the graph to the session as it was written. It
removes no attributes that have defaults (`RemoveNewDefaultAttrsFromGraphDef` is for other callers) and does not read
`stripped_op_list`. `tf.saved_model.save` and Keras leave them out when they write.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.framework.op_def_pb2 import OpDef
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef
from tensorflow.python.framework import op_def_registry

from bert_tf.export.graphs import all_nodes, reachable
from bert_tf.export.metadata import read_meta_graph

_TABLE: dict[str, Any] = json.loads(Path(__file__).with_name("tf_serving.json").read_text())
RELEASES: tuple[str, ...] = tuple(_TABLE["releases"])
# Attributes that do not change results, so that a server may ignore them. TensorFlow names each variable for messages.
_WITHOUT_EFFECT = frozenset({"VarHandleOp.debug_name"})


def serving_releases(folder: Path, required: str | None = None) -> list[str]:
    """Returns the releases that serve a SavedModel.

    Args:
        folder: folder of the SavedModel.
        required: release that must serve it; None for any.

    Returns:
        The releases, the oldest first.

    Raises:
        ValueError: for an unknown release, or if the required one lacks an operation.
    """
    lacking = missing(read_meta_graph(folder))
    if required is not None:
        check_release(required)
        if lacking[required]:
            able = ", ".join(release for release, names in lacking.items() if not names) or "none"
            raise ValueError(
                f"{folder}: TF Serving {required} lacks {', '.join(lacking[required])}. Releases that load this "
                f"version: {able}. Use one of them, or export with another vocabulary, head or precision."
            )
    return [release for release, names in lacking.items() if not names]


def check_release(release: str) -> None:
    """Raises ValueError for a release of TF Serving that the table does not have."""
    if release not in RELEASES:
        raise ValueError(f"`for_serving` must be one of {', '.join(RELEASES)}. Received: {release!r}")


def missing(meta_graph: MetaGraphDef) -> dict[str, list[str]]:
    """Returns the sorted operations that each release lacks, and each `Operation.attribute` that it would ignore.

    A release with an empty list serves the graph. Attributes count where a node's value is not the default, functions
    only if the graph calls them.
    """
    graph = meta_graph.graph_def
    functions = {function.signature.name for function in graph.library.function}
    called = reachable(graph, [node.name for node in graph.node])
    definitions = {definition.name: definition for definition in meta_graph.meta_info_def.stripped_op_list.op}
    operations, attributes = set(), set()
    for function_name, node in all_nodes(graph):
        if node.op in functions or (function_name and function_name not in called):
            continue
        operations.add(node.op)
        definition = definitions.get(node.op) or op_def_registry.get(node.op)
        attributes |= {f"{node.op}.{name}" for name in _changed(node, definition)}
    return {
        release: sorted((operations - _operations(release)) | (attributes & _later_attributes(release)))
        for release in RELEASES
    }


def _changed(node: NodeDef, definition: OpDef | None) -> Iterator[str]:
    """Yields the names of a node's attributes whose values are not the defaults."""
    defaults = {attribute.name: attribute.default_value for attribute in definition.attr} if definition else {}
    return (name for name, value in node.attr.items() if value != defaults.get(name))


@functools.cache
def _operations(release: str) -> frozenset[str]:
    """Returns the operations of a release."""
    operations = set(_TABLE["operations"])
    for later in RELEASES[1 : RELEASES.index(release) + 1]:
        operations = (operations | set(_TABLE["added"][later])) - set(_TABLE["removed"][later])
    text = _TABLE["releases"][release]["tensorflow_text"]
    return frozenset(operations | set(_TABLE["text_operations"][text]))


@functools.cache
def _later_attributes(release: str) -> frozenset[str]:
    """Returns the attributes that only later releases know, without those that do not change results."""
    later = RELEASES[RELEASES.index(release) + 1 :]
    return frozenset().union(*(_TABLE["attributes"][name] for name in later)) - _WITHOUT_EFFECT

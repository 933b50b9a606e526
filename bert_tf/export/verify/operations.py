"""Checks that TF Serving supports the operations of a SavedModel.

TF Serving's server links TensorFlow's own kernels and tensorflow-text's `ops_lib` (SUPPORTED_TENSORFLOW_OPS in
tensorflow_serving/model_servers/BUILD). It fails to load a graph with other operations, or to
run it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.python.framework.kernels import get_registered_kernels_for_op

from bert_tf.export.metadata import read_meta_graph

# Tokenizer operations in tensorflow-text's `ops_lib` of all releases (`tf_serving`).
TEXT_OPERATIONS = frozenset({"FastBertNormalize", "FastWordpieceTokenizeWithOffsets"})
# Operations that call Python or compile unchecked code for the local machine.
_REFUSED = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc", "XlaCallModule", "XlaCustomCallV2", "XlaLaunch"})


def text_operations(folder: Path) -> list[str]:
    """Returns the sorted operations beyond TensorFlow's. Raises ValueError for one that TF Serving does not link."""
    meta_graph = read_meta_graph(folder)
    graph = meta_graph.graph_def
    functions = {function.signature.name: function for function in graph.library.function}
    reached = {
        name: reachable(graph, [info.name.partition(":")[0].lstrip("^") for info in definition.outputs.values()])
        for name, definition in meta_graph.signature_def.items()
    }
    needed = set().union(*reached.values())
    operations = set()
    for function_name, node in all_nodes(graph):
        # A function that no signature calls is never instantiated.
        if function_name and function_name not in needed:
            continue
        if node.op in functions or _is_core(node.op):
            continue
        if node.op not in TEXT_OPERATIONS:
            users = sorted(name for name, names in reached.items() if function_name in names or node.name in names)
            raise ValueError(
                f"{folder}: TF Serving links TensorFlow's operations for the CPU, without those that call Python, and "
                f"{', '.join(sorted(TEXT_OPERATIONS))}. Received: {node.op} (`{node.name}` of "
                f"{function_name or 'the graph'}, reached by signature {', '.join(users) or 'none'})"
            )
        operations.add(node.op)
    return sorted(operations)


@functools.cache
def _is_core(operation: str) -> bool:
    """Returns True if TensorFlow itself, without tensorflow-text, has a CPU kernel for the operation."""
    if operation in _REFUSED or not hasattr(tf.raw_ops, operation):
        return False
    # Some kernels are registered for any device.
    devices = {kernel.device_type for kernel in get_registered_kernels_for_op(operation).kernel}
    return bool(devices & {"CPU", "DEFAULT"})


def all_nodes(graph: GraphDef) -> Iterator[tuple[str, NodeDef]]:
    """Yields all nodes with the name of their function; "" for nodes of the graph itself."""
    for node in graph.node:
        yield "", node
    for function in graph.library.function:
        for node in function.node_def:
            yield function.signature.name, node


def reachable(graph: GraphDef, outputs: Iterable[str]) -> set[str]:
    """Returns the names of all graph nodes that `outputs` depend on, and of the functions that these call."""
    nodes = {node.name: node for node in graph.node}
    functions = {function.signature.name: function for function in graph.library.function}
    reached: set[str] = set()
    waiting = list(outputs)
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        if name in functions:
            called = functions[name].node_def
        else:
            called = [nodes[name]]
            waiting += [source.lstrip("^").partition(":")[0] for source in nodes[name].input]
        waiting += [function for node in called for function in _called(node) if function in functions]
    return reached


def _called(node: NodeDef) -> Iterator[str]:
    """Yields the names of functions that a node may call."""
    yield node.op
    for value in node.attr.values():
        yield value.func.name
        yield from (function.name for function in value.list.func)

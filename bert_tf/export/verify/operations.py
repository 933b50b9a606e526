"""Checks that TF Serving supports the operations of a SavedModel.

TF Serving's server links TensorFlow's own kernels and tensorflow-text's `ops_lib` (SUPPORTED_TENSORFLOW_OPS in
tensorflow_serving/model_servers/BUILD). It fails to load a graph with other operations, or to
run it.
"""

from __future__ import annotations

import functools
from pathlib import Path

import tensorflow as tf
from tensorflow.python.framework.kernels import get_registered_kernels_for_op

from bert_tf.export.graphs import all_nodes, outputs_of, reachable
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
    reached = {name: reachable(graph, outputs_of(definition)) for name, definition in meta_graph.signature_def.items()}
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

"""Nodes and functions of a SavedModel's graph, and those of them that read or write files or run programs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tensorflow.core.framework.attr_value_pb2 import AttrValue
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef, SignatureDef

# Operations of a SavedModel's own saver, which nothing calls while the model is served.
_OF_SAVER = re.compile(r"(Save|Restore)V2|MergeV2Checkpoints")
# Operations that read or write files, open connections, or run other code than TensorFlow's. All of tf.data is among
# them, because a data set may also stand in a string.
_OUTSIDE = re.compile(
    "|".join(
        [
            r"(Read|Write|Matching)Files?\w*|ImmutableConst|DumpTensor|RecordInput|\w*Dataset\w*|\w*Iterator\w*",
            r"Save(V2|Slices)?|Restore(V2|Slice)?|DTensorRestoreV2|DistributedSave|MergeV2Checkpoints",
            r"LoadAndRemapMatrix|GenerateVocabRemapping|InitializeTableFromTextFile\w*|FixedUnigramCandidateSampler",
            r"(TextLine|TFRecord|FixedLengthRecord|WholeFile|LMDB)Reader\w*|Skipgram",
            r"CreateSummary(File|Db)Writer|ImportEvent|FileSystemSetConfiguration|CalibrationStatisticsSaver",
            r"Debug(Identity|NanCount|NumericSummary|Gradient)\w*|DecodeProtoV2|EncodeProto",
            r"(Eager)?PyFunc\w*|RemoteCall|Rpc\w+|Xla\w+|Collective\w+",
        ]
    )
)
_PRINTS, _STREAM = "PrintV2", "output_stream"


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
        elif name not in nodes:
            continue
        else:
            called = [nodes[name]]
            waiting += [source.lstrip("^").partition(":")[0] for source in nodes[name].input]
        waiting += [function for node in called for function in _called(node) if function in functions]
    return reached


def _called(node: NodeDef) -> Iterator[str]:
    """Yields the names of functions that a node may call."""
    yield node.op
    yield from _functions_in(node.attr.values())


def _functions_in(values: Iterable[AttrValue]) -> Iterator[str]:
    """Yields the names of the functions in attributes, and in the attributes of these."""
    for value in values:
        for function in (value.func, *value.list.func):
            yield function.name
            if function.attr:
                yield from _functions_in(function.attr.values())


def outputs_of(signature: SignatureDef) -> list[str]:
    """Returns the names of the nodes that compute the outputs of a signature."""
    return [info.name.partition(":")[0].lstrip("^") for info in signature.outputs.values()]


def outside_operations(meta_graph: MetaGraphDef) -> list[str]:
    """Returns the sorted operations that read or write files, open connections or run other code than TensorFlow's.

    The saver, which each SavedModel has, does not count as long as no signature or function of the model reaches it. In
    the form of TensorFlow 1, a model runs its saver when it is loaded, so that it counts.
    """
    graph, saver = meta_graph.graph_def, meta_graph.saver_def
    of_saver = reachable(graph, [saver.save_tensor_name.partition(":")[0], saver.restore_op_name])
    roots = [name for signature in meta_graph.signature_def.values() for name in outputs_of(signature)]
    # The functions that are called when the model is loaded, and those of the loaded signatures.
    served = reachable(graph, [*roots, *meta_graph.object_graph_def.concrete_functions])
    exempt = of_saver - served if meta_graph.object_graph_def.nodes else set()
    found = set()
    for function_name, node in all_nodes(graph):
        if _OF_SAVER.fullmatch(node.op) and (function_name or node.name) in exempt:
            continue
        to_file = node.op == _PRINTS and node.attr[_STREAM].s.startswith(b"file:")
        if to_file or _OUTSIDE.fullmatch(node.op):
            found.add(node.op)
    return sorted(found)

"""Releases of TF Serving that have the operations of a graph."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef

from bert_tf.export.metadata import read_meta_graph
from bert_tf.export.verify.operations import TEXT_OPERATIONS
from bert_tf.export.verify.tf_serving import RELEASES, missing, serving_releases

TRIM = "TFText>RoundRobinTrim"


def meta_graph(*operations: str, called: bool = True) -> MetaGraphDef:
    """A graph that calls a function with the operations, or has such a function and does not call it."""
    graph = GraphDef()
    function = graph.library.function.add()
    function.signature.name = "inner"
    for number, operation in enumerate(operations):
        function.node_def.add(name=f"node_{number}", op=operation)
    node = graph.node.add(name="call", op="PartitionedCall")
    if called:
        node.attr["f"].func.name = "inner"
    return MetaGraphDef(graph_def=graph)


def with_node(operation: str) -> tuple[MetaGraphDef, NodeDef]:
    graph = MetaGraphDef()
    return graph, graph.graph_def.node.add(name="node", op=operation)


def without(graph: MetaGraphDef) -> list[str]:
    """The releases that lack something."""
    return [release for release, names in missing(graph).items() if names]


def before(release: str) -> list[str]:
    return list(RELEASES[: RELEASES.index(release)])


def test_releases_are_in_order() -> None:
    assert list(RELEASES) == [f"2.{minor}" for minor in range(13, 22)]
    assert list(missing(MetaGraphDef())) == list(RELEASES)


@pytest.mark.parametrize("operation", ["MatMul", "StatelessIf", *sorted(TEXT_OPERATIONS)])
def test_operations_of_all_releases(operation: str) -> None:
    assert without(meta_graph(operation)) == []


@pytest.mark.parametrize(("operation", "first"), [(TRIM, "2.20"), ("DecodeWebP", "2.20"), ("FFTND", "2.15")])
def test_operations_of_later_releases(operation: str, first: str) -> None:
    assert without(meta_graph("MatMul", operation)) == before(first)
    assert missing(meta_graph("MatMul", operation))["2.13"] == [operation]


def test_removed_operation() -> None:
    assert without(meta_graph("RelayoutGrad")) == [release for release in RELEASES if release != "2.13"]


def test_invented_operations() -> None:
    assert list(missing(meta_graph("NoSuch", "Invented", "NoSuch")).values()) == [["Invented", "NoSuch"]] * len(
        RELEASES
    )
    assert list(missing(with_node("Invented")[0]).values()) == [["Invented"]] * len(RELEASES)


def test_function_that_nothing_calls() -> None:
    assert without(meta_graph("Invented", called=False)) == []


def test_functions_are_no_operations() -> None:
    graph = meta_graph("MatMul")
    graph.graph_def.node.add(name="direct", op="inner")
    assert without(graph) == []


def test_attribute_of_later_releases() -> None:
    graph, node = with_node("GatherNd")
    node.attr["bad_indices_policy"].s = b""
    assert without(graph) == []
    node.attr["bad_indices_policy"].s = b"IGNORE"
    assert without(graph) == before("2.17")
    assert missing(graph)["2.16"] == ["GatherNd.bad_indices_policy"]


def test_default_of_the_graph_counts_before_that_of_tensorflow() -> None:
    graph, node = with_node("GatherNd")
    node.attr["bad_indices_policy"].s = b"IGNORE"
    attribute = graph.meta_info_def.stripped_op_list.op.add(name="GatherNd").attr.add(name="bad_indices_policy")
    attribute.default_value.s = b"IGNORE"
    assert without(graph) == []


def test_attributes_without_effect() -> None:
    graph, node = with_node("VarHandleOp")
    node.attr["debug_name"].s = b"kernel/"
    node.attr["_output_shapes"].list.shape.add()
    assert without(graph) == []


def test_saved_model(tmp_path: Path) -> None:
    module = tf.Module()
    module.kernel = tf.Variable([[1.0, 2.0]])

    @tf.function(input_signature=[tf.TensorSpec([None, 1])])
    def call(rows: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"rows": tf.signal.fftnd(tf.cast(rows @ module.kernel, tf.complex64), [2], [-1])}

    module.call = call
    tf.saved_model.save(module, str(tmp_path), signatures=call)
    assert missing(read_meta_graph(tmp_path)) == {
        release: ["FFTND"] if release in before("2.15") else [] for release in RELEASES
    }
    assert serving_releases(tmp_path, "2.15") == serving_releases(tmp_path) == list(RELEASES[2:])
    with pytest.raises(ValueError, match="TF Serving 2.14 lacks FFTND. Releases that load this version: 2.15, 2.16"):
        serving_releases(tmp_path, "2.14")
    with pytest.raises(ValueError, match=r"must be one of 2.13, .* Received: '2.1'"):
        serving_releases(tmp_path, "2.1")

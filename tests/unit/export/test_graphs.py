"""Operations that reach beyond a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef

from bert_tf.export.graphs import outside_operations
from bert_tf.export.metadata import read_meta_graph

TEXT = tf.TensorSpec([], tf.string)


def wrote(text: tf.Tensor) -> tf.Tensor:
    tf.io.write_file("/tmp/written", text)
    return text


def printed(text: tf.Tensor) -> tf.Tensor:
    tf.print(text, output_stream="file:///tmp/written")
    return text


def from_table(text: tf.Tensor) -> tf.Tensor:
    words = tf.data.TextLineDataset("/etc/hostname")
    return words.reduce(text, lambda before, line: before + line)


def saved(folder: Path, compute: Callable[[tf.Tensor], tf.Tensor]) -> MetaGraphDef:
    module = tf.Module()
    module.weight = tf.Variable("x")
    inner = tf.function(compute, autograph=False)
    module.call = tf.function(lambda text: {"text": inner(text) + module.weight}, input_signature=[TEXT])
    tf.saved_model.save(module, str(folder), signatures=module.call)
    return read_meta_graph(folder)


@pytest.mark.parametrize(
    ("compute", "operations"),
    [
        (lambda text: text, []),
        (lambda text: tf.strings.lower(text), []),
        (tf.io.read_file, ["ReadFile"]),
        (wrote, ["WriteFile"]),
        (printed, ["PrintV2"]),
        (from_table, ["TextLineDataset"]),
        (tf.io.matching_files, ["MatchingFiles"]),
        (lambda text: tf.raw_ops.ImmutableConst(dtype=tf.string, shape=[], memory_region_name="/etc/hostname"),
         ["ImmutableConst"]),
        (lambda text: tf.raw_ops.RestoreV2(
            prefix=text, tensor_names=["x"], shape_and_slices=[""], dtypes=[tf.string])[0], ["RestoreV2"]),
        (lambda text: tf.py_function(lambda value: value, [text], tf.string), ["EagerPyFunc"]),
    ],
    ids=["none", "text", "read", "write", "print", "data", "list", "memory", "restore", "python"],
)  # fmt: skip
def test_outside_operations_are_named(compute: Any, operations: list[str], tmp_path: Path) -> None:
    found = outside_operations(saved(tmp_path, compute))
    assert set(operations) <= set(found) and bool(found) == bool(operations)


def test_printing_to_the_log_is_no_file(tmp_path: Path) -> None:
    def logged(text: tf.Tensor) -> tf.Tensor:
        tf.print(text)
        return text

    assert outside_operations(saved(tmp_path, logged)) == []


def test_the_saver_counts_where_a_signature_reaches_it(tmp_path: Path) -> None:
    graph = saved(tmp_path, lambda text: text)
    definition = graph.signature_def["serving_default"]
    definition.outputs["saved"].name = graph.saver_def.save_tensor_name
    assert "SaveV2" in outside_operations(graph)


@pytest.mark.parametrize(
    "name",
    ["CSVDatasetV2", "ExperimentalCSVDataset", "DatasetFromGraph", "Skipgram", "DumpTensor", "XlaCallModule", "RpcCall",
     "FixedUnigramCandidateSampler", "IteratorFromStringHandle", "SnapshotDatasetReader",
     "InitializeTableFromTextFileV2"],
)  # fmt: skip
def test_other_ways_out_are_named(name: str, tmp_path: Path) -> None:
    graph = saved(tmp_path, lambda text: text)
    graph.graph_def.node.add(name="other", op=name)
    assert outside_operations(graph) == [name]


def test_the_saver_counts_where_a_function_of_the_model_reaches_it(tmp_path: Path) -> None:
    graph = saved(tmp_path, lambda text: text)
    saver = next(
        node for node in graph.graph_def.node if node.name == graph.saver_def.save_tensor_name.partition(":")[0]
    )
    name = next(iter(graph.object_graph_def.concrete_functions))
    served = next(function for function in graph.graph_def.library.function if function.signature.name == name)
    # Neither the outputs of the signature nor a direct call: the function is an attribute of an attribute.
    call = served.node_def.add(name="hidden", op="PartitionedCall")
    call.attr["f"].func.name = "nothing"
    call.attr["f"].func.attr["inner"].func.CopyFrom(saver.attr["f"].func)
    assert "SaveV2" in outside_operations(graph)


def test_a_model_of_tensorflow_1_runs_its_saver(tmp_path: Path) -> None:
    graph = saved(tmp_path, lambda text: text)
    graph.ClearField("object_graph_def")
    assert set(outside_operations(graph)) >= {"RestoreV2", "SaveV2"}


def test_unknown_outputs_are_skipped(tmp_path: Path) -> None:
    graph = saved(tmp_path, lambda text: text)
    graph.signature_def["serving_default"].outputs["other"].name = "nothing:0"
    assert outside_operations(graph) == []

"""A served model needs only TensorFlow and tensorflow-text's operations."""

from __future__ import annotations

import ast
import importlib
import os
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from bert_tf.export import runtime
from bert_tf.models import load_preset
from tests.support.export.presets import KINDS
from tests.support.paths import SUPPORT

MEMORY = Path(runtime.__file__).parents[1] / "serving" / "memory.py"
# The server and both clients, in an environment that has only the extra `serve`.
SERVED = """
import sys, threading
from pathlib import Path
from tests.support.entry.only_extra import hide_others
hide_others("serve")
import uvicorn
from bert_tf.client import connect
from bert_tf.serving.models.versions import ServedModel
from bert_tf.serving.grpc.server import GrpcServer
from bert_tf.serving.http.app import create_app
from bert_tf.serving.server import ServerOptions, loaded_service
options = ServerOptions(poll_seconds=0, warm_up=False)
with loaded_service([ServedModel("m", Path(sys.argv[1]).parent)], options) as service:
    grpc = GrpcServer(service, options.grpc)
    grpc_port = grpc.add_port("127.0.0.1:0")
    grpc.start()
    config = uvicorn.Config(create_app(service, options.rest), port=0, log_config=None)
    rest, listener = uvicorn.Server(config), config.bind_socket()
    listener.listen()
    thread = threading.Thread(target=rest.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        for url in (f"http://127.0.0.1:{listener.getsockname()[1]}/v1/models/m", f"grpc://127.0.0.1:{grpc_port}/m"):
            assert connect(url).predict(["the cat sat"])[0]["label"], url
    finally:
        rest.should_exit = True
        thread.join()
        grpc.stop(None)
assert not {"keras", "jax", "sklearn", "tensorflow_text"} & sys.modules.keys()
import keras, tensorflow as tf, tensorflow_text
assert tf.keras.layers.Dense is keras.layers.Dense
assert tensorflow_text.WhitespaceTokenizer().tokenize(["a b"]).to_list() == [[b"a", b"b"]]
"""

FUSED = """
import sys
from bert_tf.export.runtime import prefer_onednn, register_text_operations
prefer_onednn()
import tensorflow as tf
register_text_operations()
v1, seen = tf.compat.v1, tf.compat.v1.RunMetadata()
with v1.Session(graph=tf.Graph()) as session:
    signature = v1.saved_model.load(session, ["serve"], sys.argv[1]).signature_def["serving_default"]
    outputs = [info.name for info in signature.outputs.values()]
    options = v1.RunOptions(output_partition_graphs=True)
    session.run(outputs, {signature.inputs["text"].name: ["the cat sat"]}, options, seen)
graphs = [graph for graph in seen.partition_graphs]
nodes = [node for graph in graphs for part in (graph, *graph.library.function) for node in (
    part.node if hasattr(part, "node") else part.node_def)]
print([[str(name, "ascii") for name in node.attr["fused_ops"].list.s] for node in nodes if "fused_ops" in node.attr])
"""

OTHER_KINDS = tuple(kind for kind in KINDS if kind != "classifier")
PACKED = """
import sys
from bert_tf.export.runtime import keep_packed_weights
keep_packed_weights()
from bert_tf.export.verify.check import main
sys.exit(any([main([folder]) for folder in sys.argv[1:]]))
"""


def ran(chosen: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")} | chosen
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment, check=False)


def served(folder: Path, chosen: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return ran(chosen, "-c", SERVED, str(folder), str(SUPPORT / "entry"))


def test_extra_serve_suffices_and_keras_can_be_imported_later(exported: Callable[[str], Path]) -> None:
    done = served(exported("classifier"), {})
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("chosen", "used"), [({}, True), ({"TF_ENABLE_ONEDNN_OPTS": "0"}, False)])
def test_onednn_is_used_unless_the_environment_disables_it(
    exported: Callable[[str], Path], chosen: dict[str, str], used: bool
) -> None:
    done = served(exported("classifier"), {"TF_CPP_MIN_LOG_LEVEL": "0"} | chosen)
    assert done.returncode == 0, done.stderr
    assert ("oneDNN custom operations are on" in done.stderr) == used


@pytest.mark.skipif(platform.machine() != "x86_64", reason="what oneDNN fuses elsewhere is not known")
def test_products_activations_and_residuals_are_fused(
    exported: Callable[[str], Path], presets: dict[str, Path]
) -> None:
    done = ran({}, "-c", FUSED, str(exported("classifier")))
    assert done.returncode == 0, done.stderr
    fused = Counter(map(tuple, ast.literal_eval(done.stdout)))
    layers = load_preset(presets["classifier"]).config.num_layers
    assert fused["BiasAdd", "GeluApproximate"] == layers
    assert fused["BiasAdd", "Add"] == layers


def test_server_returns_large_buffers_unless_the_environment_disables_it() -> None:
    name = "TF_ONEDNN_USE_SYSTEM_ALLOCATOR"
    program = f"import os, bert_tf.serving.server; print(os.environ[{name!r}])"
    values = [ran(environment, "-c", program).stdout.strip() for environment in ({}, {name: "0"})]
    assert values == ["1", "0"]


@pytest.mark.parametrize(("chosen", "arenas"), [({}, os.cpu_count() or 1), ({"MALLOC_ARENA_MAX": "64"}, None)])
def test_a_server_has_an_arena_of_malloc_for_each_core(chosen: dict[str, str], arenas: int | None) -> None:
    program = f"""
import ctypes, types
calls = []
ctypes.CDLL = lambda _: types.SimpleNamespace(mallopt=lambda *arguments: calls.append(arguments))
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("memory", {str(MEMORY)!r})
module = module_from_spec(spec)
spec.loader.exec_module(module)
module.limit_arenas()
print(calls)
"""
    assert ran(chosen, "-c", program).stdout.strip() == (f"[(-8, {arenas})]" if arenas else "[]")


@pytest.mark.parametrize("kinds", [("classifier",), pytest.param(OTHER_KINDS, marks=pytest.mark.slow)])
def test_packed_weights_do_not_change_outputs(exported: Callable[[str], Path], kinds: tuple[str, ...]) -> None:
    done = ran({"TF_ENABLE_ONEDNN_OPTS": "1"}, "-c", PACKED, *(str(exported(kind)) for kind in kinds))
    assert done.returncode == 0, done.stderr


def test_packed_weights_follow_the_flag_unless_the_environment_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TF_ONEDNN_ASSUME_FROZEN_WEIGHTS", "0")
    runtime.keep_packed_weights()
    assert os.environ["TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"] == "0"
    monkeypatch.delenv("TF_ONEDNN_ASSUME_FROZEN_WEIGHTS")
    runtime.keep_packed_weights()
    assert os.environ["TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"] == "1"


def test_only_modules_not_yet_imported_are_hidden_and_only_for_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "_NOT_NEEDED", ("this", "json"))
    monkeypatch.delitem(sys.modules, "this", raising=False)
    with runtime.without_keras():
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("this")
        assert importlib.import_module("json") is sys.modules["json"]
    assert "this" not in sys.modules


def test_missing_tensorflow_text_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="tensorflow_text is not installed"):
        runtime.register_text_operations()

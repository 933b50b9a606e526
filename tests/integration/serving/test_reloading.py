"""Changes of the served models at run time, by the configuration file and by a request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import text_format
from tensorflow_serving.apis import model_service_pb2_grpc
from tensorflow_serving.apis.model_management_pb2 import ReloadConfigRequest

from bert_tf.serving.configuration import read_model_config
from bert_tf.serving.grpc.server import GrpcOptions, GrpcServer
from bert_tf.serving.metrics import Metrics
from bert_tf.serving.models.versions import ServedModel
from bert_tf.serving.reloading import ModelConfigFile
from bert_tf.serving.requests.admission import Admission
from bert_tf.serving.server import ServerOptions
from bert_tf.serving.service import Service
from tests.support.serving.fake_versions import Models, write_version

Reload = Callable[[str], None]


def config_of(*names: str, more: str = "") -> str:
    entries = "".join(f"config {{ name: '{name}' base_path: '{name}' {more} }}" for name in names)
    return f"model_config_list {{ {entries} }}"


def test_a_file_that_changes_is_applied(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "models.config"
    path.write_text(config_of("a"))
    file = ModelConfigFile(path, read_model_config(path))
    assert not file.changed()
    path.write_text(config_of("a", "b"))
    assert (file.changed(), [model.name for model in file.models]) == (True, ["a", "b"])
    path.write_text(config_of("a", "b") + "# a comment")
    assert not file.changed()
    for invalid in ("nonsense", "", config_of("a", "a"), config_of("a", more="logging_config {}")):
        path.write_text(invalid)
        caplog.clear()
        assert not file.changed()
        assert not file.changed()
        assert len(caplog.records) == 1
    path.unlink()
    assert not file.changed()
    assert len(file.models) == 2
    path.write_text(config_of("a", "b", more="version_labels { key: 'stable' value: 3 }"))
    assert (file.changed(), file.models[0].labels) == (True, {"stable": 3})


def test_a_file_is_watched(tmp_path: Path) -> None:
    models = Models(tmp_path / "m", 1)
    path = tmp_path / "models.config"
    path.write_text(config_of("m"))
    served, applied = read_model_config(path), threading.Event()
    models.manager = models.manager_of(*served)

    def apply(changed: Any) -> None:
        models.manager.reload(changed)
        applied.set()

    with models.manager, ModelConfigFile(path, served).watched(apply, 0.01):
        write_version(tmp_path / "new/3")
        path.write_text(config_of("new"))
        assert applied.wait(20)
        models.manager.wait_loaded(["new"])
        assert (models.manager.names, models.answers("new")) == (["new"], 3)


@pytest.fixture
def models(tmp_path: Path) -> Iterator[Models]:
    """The model `m` and its manager."""
    models = Models(tmp_path / "m", 1)
    with models.manager:
        yield models


@pytest.fixture
def reload(models: Models) -> Iterator[Reload]:
    """Sends a configuration in text format to a server that accepts it."""
    with ExitStack() as stack:
        service = Service(models.manager, Metrics(), Admission(2**20))
        server = GrpcServer(service, GrpcOptions(allow_reload_config=True))
        port = server.add_port("127.0.0.1:0")
        server.start()
        stack.callback(lambda: server.stop(None))
        channel = stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{port}"))
        stub = model_service_pb2_grpc.ModelServiceStub(channel)

        def send(text: str) -> None:
            response = stub.HandleReloadConfigRequest(text_format.Parse(text, ReloadConfigRequest()), timeout=60)
            assert response.status.error_code == grpc.StatusCode.OK.value[0]

        yield send


def test_a_request_changes_the_models(models: Models, reload: Reload, tmp_path: Path) -> None:
    write_version(tmp_path / "new/3")
    new = f"config {{ name: 'new' base_path: '{tmp_path}/new' version_labels {{ key: 'stable' value: 3 }} }}"
    old = f"config {{ name: 'm' base_path: '{tmp_path}/m' }}"
    reload(f"config {{ model_config_list {{ {old} {new} }} }}")
    assert (models.answers(), models.answers("new", label="stable")) == (1, 3)
    reload(f"config {{ model_config_list {{ {new} }} }}")
    assert models.manager.names == ["new"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must name at least one model"),
        ("config { custom_model_config {} }", "custom_model_config is not supported"),
        ("config { model_config_list { config { name: 'n' base_path: 'n' } } }", "base_path must be absolute"),
        ("config { model_config_list { config { name: 'n' base_path: 's3://x/n' } } }", "configured already"),
        ("config { model_config_list { config { name: 'n' base_path: '/n' } } } metric_names: 'x'", "metric_names"),
        ("config { model_config_list { config { name: 'n' base_path: '/n' logging_config {} } } }", "logging_config"),
    ],
)
def test_an_invalid_request_changes_nothing(text: str, message: str, models: Models, reload: Reload) -> None:
    with pytest.raises(grpc.RpcError, match=message) as refused:
        reload(text)
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert (models.manager.names, models.answers()) == (["m"], 1)


def test_model_that_fails_to_load_is_reported(models: Models, reload: Reload, tmp_path: Path) -> None:
    write_version(tmp_path / "bad/1", b"corrupt")
    entries = "".join(f"config {{ name: '{name}' base_path: '{tmp_path}/{name}' }}" for name in ("m", "bad", "gone"))
    with pytest.raises(grpc.RpcError, match="bad: .*not a readable SavedModel; gone: .*cannot be read") as refused:
        reload(f"config {{ model_config_list {{ {entries} }} }}")
    assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert (models.manager.names, models.answers()) == (["m", "bad", "gone"], 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 2, "grpc": GrpcOptions(allow_reload_config=True)}, "a request reaches only one of them"),
        ({"model_config_poll_seconds": 1.0}, "needs a `model_config_file`"),
        ({"model_config_poll_seconds": -1.0, "model_config_file": Path("x")}, "must not be negative"),
        ({"load_threads": 0}, "`load_threads` must be at least 1. Received: 0"),
    ],
)
def test_incompatible_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ServerOptions(**options)


def test_model_may_move_to_another_base_path(models: Models, tmp_path: Path) -> None:
    write_version(tmp_path / "moved/1")
    models.manager.reload([ServedModel("m", tmp_path / "moved")])
    models.manager.poll()
    with models.manager.lease("m") as version:
        assert version.folder == tmp_path / "moved/1"

"""Compares the compose file and the Kubernetes manifest with the configurations that they pass on; neither is run."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath
from typing import Any

import pytest
import yaml
from google.protobuf import text_format
from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

from tests.support.paths import REPOSITORY

SAVED_MODELS = REPOSITORY / "saved_models"
# Flags of tensorflow_serving/model_servers/main.cc; the entry point of the image sets the ports.
FLAGS = {
    "allow_version_labels_for_unavailable_models", "batching_parameters_file", "enable_batching", "model_config_file",
    "model_config_file_poll_wait_seconds", "monitoring_config_file",
}  # fmt: skip
GRPC, REST = 8500, 8501


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((SAVED_MODELS / name).read_text(encoding="utf-8")))


COMPOSE, PROMETHEUS, KUSTOMIZATION = (
    documents(name)[0] for name in ("compose.yaml", "prometheus.yml", "kustomization.yaml")
)
DEPLOYMENT, SERVICE = documents("kubernetes.yaml")
POD = DEPLOYMENT["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


def model_paths() -> dict[str, str]:
    text = (SAVED_MODELS / "models.config").read_text(encoding="utf-8")
    config = text_format.Parse(text, ModelServerConfig())
    return {model.name: model.base_path for model in config.model_config_list.config}


def metrics_path() -> str:
    lines = (SAVED_MODELS / "monitoring.config").read_text(encoding="utf-8").splitlines()
    return next(line.split('"')[1] for line in lines if "path:" in line)


def flags_of(arguments: list[str]) -> dict[str, str]:
    return dict(argument.removeprefix("--").split("=") for argument in arguments)


@pytest.mark.parametrize(
    ("arguments", "folder"),
    [(COMPOSE["services"]["serving"]["command"], "/models"), (CONTAINER["args"], "/etc/serving")],
    ids=["compose", "kubernetes"],
)
def test_flags_are_valid_for_tf_serving_and_files_are_mounted(arguments: list[str], folder: str) -> None:
    flags = flags_of(arguments)
    assert set(flags) <= FLAGS
    files = [PurePosixPath(value) for name, value in flags.items() if name.endswith("_file")]
    assert {str(file.parent) for file in files} == {folder}
    assert {file.name for file in files} == {"models.config", "batching.config", "monitoring.config"}
    assert all((SAVED_MODELS / file.name).is_file() for file in files)


def test_compose_and_kubernetes_run_the_same_server() -> None:
    serving = COMPOSE["services"]["serving"]
    assert serving["image"] == CONTAINER["image"]
    assert serving["image"].partition(":")[2].count(".") == 2
    compose, kubernetes = (
        {name: PurePosixPath(value).name for name, value in flags_of(arguments).items()}
        for arguments in (serving["command"], CONTAINER["args"])
    )
    # Kubernetes replaces servers when models.config changes, so the file is not polled.
    del compose["model_config_file_poll_wait_seconds"]
    assert compose == kubernetes


def test_models_are_mounted_read_only_at_the_configured_path() -> None:
    source, target, mode = COMPOSE["services"]["serving"]["volumes"][0].split(":")
    mounts = {mount["name"]: mount for mount in CONTAINER["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in POD["volumes"]}
    assert set(mounts) == set(volumes)
    assert (source, mode) == (".", "ro")
    assert mounts["models"]["readOnly"] and volumes["models"]["persistentVolumeClaim"]["readOnly"]
    for root in (target, mounts["models"]["mountPath"]):
        assert all(path == f"{root}/{name}" for name, path in model_paths().items())


def test_config_map_uses_the_files_of_the_repository() -> None:
    (generated,) = KUSTOMIZATION["configMapGenerator"]
    volumes = {volume["name"]: volume for volume in POD["volumes"]}
    assert volumes["config"]["configMap"]["name"] == generated["name"]
    assert {
        PurePosixPath(value).name for name, value in flags_of(CONTAINER["args"]).items() if name.endswith("_file")
    } == {*generated["files"]}
    assert KUSTOMIZATION["resources"] == ["kubernetes.yaml"]


def test_ports_are_those_of_the_image() -> None:
    ports = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
    assert ports == {"grpc": GRPC, "rest": REST}
    assert {port["targetPort"]: port["port"] for port in SERVICE["spec"]["ports"]} == ports
    assert COMPOSE["services"]["serving"]["ports"] == [f"127.0.0.1:{port}:{port}" for port in (GRPC, REST)]
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    assert SERVICE["spec"]["selector"] == DEPLOYMENT["spec"]["selector"]["matchLabels"] == labels


@pytest.mark.parametrize("probe", ["startupProbe", "readinessProbe", "livenessProbe"])
def test_probes_query_a_served_model(probe: str) -> None:
    request = CONTAINER[probe]["httpGet"]
    assert request["port"] == "rest"
    assert request["path"] in {f"/v1/models/{name}" for name in model_paths()}


def test_nothing_runs_as_root() -> None:
    assert POD["securityContext"]["runAsNonRoot"] and POD["securityContext"]["runAsUser"] > 0
    assert int(COMPOSE["services"]["serving"]["user"].partition(":")[0]) > 0
    assert CONTAINER["securityContext"]["readOnlyRootFilesystem"] and COMPOSE["services"]["serving"]["read_only"]


def test_cores_equal_the_batching_threads() -> None:
    lines = (SAVED_MODELS / "batching.config").read_text(encoding="utf-8").splitlines()
    (threads,) = (line for line in lines if line.startswith("num_batch_threads"))
    assert f"value: {CONTAINER['resources']['requests']['cpu']} " in threads


def test_prometheus_scrapes_the_configured_path() -> None:
    (job,) = PROMETHEUS["scrape_configs"]
    assert job["metrics_path"] == metrics_path()
    assert job["static_configs"] == [{"targets": [f"serving:{REST}"]}]
    (mounted, _) = COMPOSE["services"]["prometheus"]["volumes"]
    assert mounted.split(":")[0] == "./prometheus.yml"
    annotations = DEPLOYMENT["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/path"] == metrics_path()
    assert annotations["prometheus.io/port"] == str(REST)


class Status(BaseHTTPRequestHandler):
    """Answers status requests like TF Serving."""

    state = "AVAILABLE"

    def do_GET(self) -> None:
        name = self.path.removeprefix("/v1/models/")
        body = (
            f'{{"model_version_status": [{{"version": "1", "state": "{self.state}"}}]}}'
            if name in model_paths()
            else "{}"
        )
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Suppresses log messages."""


@pytest.fixture
def server() -> Iterator[int]:
    """The port of a server that reports model states."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Status) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield serving.server_address[1]
        serving.shutdown()


@pytest.mark.parametrize(("state", "healthy"), [("AVAILABLE", True), ("LOADING", False), (None, False)])
def test_health_check_requires_an_available_version(
    state: str | None, healthy: bool, server: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, *command = COMPOSE["services"]["serving"]["healthcheck"]["test"]
    assert kind == "CMD"
    # Compose would replace such a value with an environment variable.
    assert not any("$" in word for word in command)
    monkeypatch.setattr(Status, "state", state)
    port = server if state else 1
    done = subprocess.run([word.replace(str(REST), str(port)) for word in command], capture_output=True, check=False)
    assert (done.returncode == 0) == healthy

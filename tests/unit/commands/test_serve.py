"""`bert-tf serve` accepts TF Serving's flags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from bert_tf.cli import build_parser, main
from bert_tf.serving import metrics, server
from bert_tf.serving.models.batching import ONE_BY_ONE, BatchingOptions
from tests.support.paths import REPOSITORY

SAVED_MODELS = REPOSITORY / "saved_models"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "intents").mkdir()
    return tmp_path / "intents"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Models and options that the command would serve."""
    calls: list[Any] = []
    monkeypatch.setattr(server, "serve", lambda *arguments: calls.extend(arguments))
    return calls


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("--model_base_path={}", ("default", 8501, BatchingOptions(), True, 30.0)),
        ("--rest_api_port=1 --model_name=m --model_base_path={}", ("m", 1, BatchingOptions(), True, 30.0)),
        ("--model {} --enable_batching --enable_model_warmup", ("intents", 8501, BatchingOptions(), True, 30.0)),
        (
            "--model {} --port 0 --enable_batching=FALSE --enable_model_warmup=false --rest_api_timeout_in_ms=1500",
            ("intents", 0, ONE_BY_ONE, False, 1.5),
        ),
    ],
)
def test_flags_of_tf_serving(flags: str, expected: tuple[Any, ...], folder: Path, served: list[Any]) -> None:
    assert main(["serve", *flags.format(folder).split()]) == 0
    [model], options = served
    assert model.base_path == folder
    assert (model.name, options.port, options.batching, options.warm_up, options.rest.answer_seconds) == expected


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--model {} --port=8500 --rest_api_port=8501", "gRPC, is --grpc_port"),
        ("--model {} --model_name m", "Add --model_base_path"),
        ("--model {} --enable_batching --no_batching", "--no_batching contradict"),
        ("--model {} --enable_model_warmup=true --no_warmup", "--no_warmup contradict"),
        ("--model {} --enable_batching=false --batching_parameters_file f", "has no effect"),
        ("--model {} --allow_version_labels_for_unavailable_models=false", "must be true"),
        ("--model {} --rest_api_timeout_in_ms=0", "must be at least 1. Received: 0"),
        ("--model {} --ssl_config_file f --tls_key k", "--ssl_config_file has the certificate"),
        ("--model {} --monitoring_config_file f", "--monitoring_config_file 'f' does not exist"),
    ],
)
def test_contradictory_flags_are_refused(
    flags: str, message: str, folder: Path, served: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *flags.format(folder).split()]) == 1
    assert message in capsys.readouterr().err
    assert served == []


def test_the_arguments_of_the_deployment_are_accepted() -> None:
    deployment = next(yaml.safe_load_all((SAVED_MODELS / "kubernetes.yaml").read_text(encoding="utf-8")))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    build_parser().parse_args(["serve", *container["args"]])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("prometheus_config { enable: true }", metrics.PATH),
        ('prometheus_config: { enable: true, path: "/metrics" }  # ours', "/metrics"),
        ("", None),
        ("prometheus_config { enable: false }", None),
        ("prometheus_config { enabled: true }", ValueError),
        ('prometheus_config { enable: true path: "metrics" }', ValueError),
        ('prometheus_config { enable: true path: "/{path}" }', ValueError),
    ],
)
def test_the_path_of_the_metrics(text: str, expected: Any, folder: Path, served: list[Any]) -> None:
    file = folder / "monitoring.config"
    file.write_text(text)
    status = main(["serve", "--model", str(folder), "--monitoring_config_file", str(file)])
    if expected is ValueError:
        assert (status, served) == (1, [])
    else:
        assert served[1].rest.metrics_path == expected

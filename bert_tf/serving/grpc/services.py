"""TF Serving's gRPC services PredictionService and ModelService, on the stubs of tensorflow-serving-api."""

# ruff: noqa: N802 (methods are named as in the service definitions)
from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc
from grpc_health.v1 import health_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from bert_tf.export.metadata import CLASSIFY, REGRESS
from bert_tf.serving.errors import ServingError, break_reference_cycles
from bert_tf.serving.grpc.reader import RequestReader
from bert_tf.serving.reloading import reload_models
from bert_tf.serving.requests.cancellation import Cancellation
from bert_tf.serving.requests.tensors import Arrays, Specs, array_of, check_names, tensor_proto
from bert_tf.serving.service import GRPC, Service, Target

# Time-outs for the first HTTP/2 frames and for a connection without calls; clients reconnect automatically.
_HANDSHAKE_MILLISECONDS, _IDLE_MILLISECONDS = 5_000, 60_000
SIGNATURE_DEF = "signature_def"
_STATES = get_model_status_pb2.ModelVersionStatus.State
_HEALTH = health_pb2.HealthCheckResponse


@dataclass(frozen=True)
class GrpcOptions:
    """Limits of the gRPC interface. Larger or more requests are rejected with RESOURCE_EXHAUSTED."""

    max_message_bytes: int = 16 * 2**20
    max_requests: int = 512  # at once
    message_seconds: float = 30.0  # time-out for the arrival of a message; later calls are cancelled
    threads: int = 64  # that answer requests
    max_connections: int = 1000  # open ones; further ones are closed
    token: str | None = None  # bearer token that calls must have; None for no authentication
    # HandleReloadConfigRequest may change the models: any client can make the server read any folder of the machine.
    allow_reload_config: bool = False


def create_grpc_server(service: Service, options: GrpcOptions) -> grpc.Server:
    """Returns a gRPC server for a service; it is not started yet."""
    server = grpc.server(
        ThreadPoolExecutor(options.threads, "grpc"),
        maximum_concurrent_rpcs=options.max_requests,
        interceptors=[RequestReader(service.admission, options.message_seconds, options.token)],
        options=[
            ("grpc.max_receive_message_length", options.max_message_bytes),
            # The size of a response is limited by its number of values.
            ("grpc.max_send_message_length", -1),
            ("grpc.max_allowed_incoming_connections", options.max_connections),
            ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MILLISECONDS),
            ("grpc.max_connection_idle_ms", _IDLE_MILLISECONDS),
        ],
    )
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(_Prediction(service), server)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(
        _Models(service, allow_reload=options.allow_reload_config), server
    )
    server.add_generic_rpc_handlers((health_handler(service),))
    return server


class _Prediction(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, service: Service) -> None:
        self._service = service

    def Predict(self, request: predict_pb2.PredictRequest, context: grpc.ServicerContext) -> Any:
        with _request(self._service, request, context, "Predict") as target:

            def inputs(specs: Specs) -> Arrays:
                check_names(request.inputs.keys(), specs.keys())
                return {name: array_of(request.inputs[name], spec, name) for name, spec in specs.items()}

            version, outputs = self._service.predict(target, inputs, list(request.output_filter))
            response = predict_pb2.PredictResponse(model_spec=_spec(target, version, target.signature_name))
            for name, array in outputs.items():
                response.outputs[name].CopyFrom(tensor_proto(array))
            return response

    def Classify(self, request: classification_pb2.ClassificationRequest, context: grpc.ServicerContext) -> Any:
        return self._run_examples(request, context, CLASSIFY, classification_pb2.ClassificationResponse)

    def Regress(self, request: regression_pb2.RegressionRequest, context: grpc.ServicerContext) -> Any:
        return self._run_examples(request, context, REGRESS, regression_pb2.RegressionResponse)

    def _run_examples(self, request: Any, context: grpc.ServicerContext, verb: str, response: Any) -> Any:
        with _request(self._service, request, context, verb.capitalize()) as target:
            version, result = self._service.run_examples(target, verb, request.input)
            return response(model_spec=_spec(target, version, target.signature_name), result=result)

    def MultiInference(self, request: inference_pb2.MultiInferenceRequest, context: grpc.ServicerContext) -> Any:
        spec = request.tasks[0].model_spec if request.tasks else model_pb2.ModelSpec()
        with _count_request(self._service, spec.name, context, "MultiInference"):
            if not request.tasks:
                raise ServingError("Inference request must have at least one task")
            target = _target(spec, context)
            version, answers = self._service.infer(target, request.tasks, request.input)
            response = inference_pb2.MultiInferenceResponse()
            for signature, answer in answers:
                result = response.results.add(model_spec=_spec(target, version, signature))
                if isinstance(answer, classification_pb2.ClassificationResult):
                    result.classification_result.CopyFrom(answer)
                else:
                    result.regression_result.CopyFrom(answer)
            return response

    def GetModelMetadata(
        self, request: get_model_metadata_pb2.GetModelMetadataRequest, context: grpc.ServicerContext
    ) -> Any:
        with _request(self._service, request, context, "GetModelMetadata") as target:
            if not request.metadata_field:
                raise ServingError("GetModelMetadataRequest must specify at least one metadata_field")
            for field in request.metadata_field:
                if field != SIGNATURE_DEF:
                    raise ServingError(f"Metadata field {field} is not supported")
            version, signatures = self._service.metadata(target)
            response = get_model_metadata_pb2.GetModelMetadataResponse(model_spec=_spec(target, version))
            definitions = get_model_metadata_pb2.SignatureDefMap(signature_def=signatures)
            response.metadata[SIGNATURE_DEF].Pack(definitions)
            return response


class _Models(model_service_pb2_grpc.ModelServiceServicer):
    def __init__(self, service: Service, *, allow_reload: bool) -> None:
        self._service = service
        self._allow_reload = allow_reload

    def GetModelStatus(self, request: get_model_status_pb2.GetModelStatusRequest, context: grpc.ServicerContext) -> Any:
        with _request(self._service, request, context, "GetModelStatus") as target:
            response = get_model_status_pb2.GetModelStatusResponse()
            for state in self._service.status(target):
                added = response.model_version_status.add(version=state.version, state=_STATES.Value(state.state))
                if state.error:
                    added.status.error_code = grpc.StatusCode[state.error_code].value[0]
                    added.status.error_message = state.error
            return response

    def HandleReloadConfigRequest(
        self, request: model_management_pb2.ReloadConfigRequest, context: grpc.ServicerContext
    ) -> Any:
        with _count_request(self._service, "", context, "HandleReloadConfigRequest"):
            if not self._allow_reload:
                message = (
                    "this server does not accept configuration changes by request; start it with "
                    "--allow_reload_config, or with --model_config_file and --model_config_file_poll_wait_seconds"
                )
                raise ServingError(message, grpc.StatusCode.UNIMPLEMENTED)
            reload_models(self._service.manager, request, _timeout(context))
            return model_management_pb2.ReloadConfigResponse()


def health_handler(service: Service) -> grpc.GenericRpcHandler:
    """Returns the handler of the standard health check `grpc.health.v1.Health/Check`, for probes and load balancers.

    A check names one model, or is empty for all models. The status is SERVING if each of them has an available version,
    NOT_SERVING if not or during a shutdown, and NOT_FOUND for an unknown name.

    `Watch` is not implemented. Each open watch would hold a thread of the server, so that a few clients could block all
    requests. By gRPC's definition, a watching client treats UNIMPLEMENTED as healthy.
    """

    def check(request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext) -> health_pb2.HealthCheckResponse:
        known = service.manager.names
        if request.service and request.service not in known:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no model is named {request.service!r}")
        names = [request.service] if request.service else known
        ready = all(map(service.ready, names)) and not service.draining
        return _HEALTH(status=_HEALTH.SERVING if ready else _HEALTH.NOT_SERVING)

    handler = grpc.unary_unary_rpc_method_handler(
        check, health_pb2.HealthCheckRequest.FromString, _HEALTH.SerializeToString
    )
    name = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
    # The generated class would also register `Watch`, whose thread waits for a message before it can reject the call.
    return grpc.method_handlers_generic_handler(name, {"Check": handler})


@contextlib.contextmanager
def _count_request(service: Service, name: str, context: grpc.ServicerContext, api: str) -> Iterator[None]:
    """Counts a request, and aborts the call with the code and message of a ServingError."""
    try:
        with service.request(name, api, GRPC):
            yield
    except ServingError as error:
        break_reference_cycles(error)
        context.abort(error.code, str(error))


@contextlib.contextmanager
def _request(service: Service, request: Any, context: grpc.ServicerContext, api: str) -> Iterator[Target]:
    with _count_request(service, request.model_spec.name, context, api):
        if not request.HasField("model_spec"):
            raise ServingError("Missing ModelSpec")
        yield _target(request.model_spec, context)


def _target(spec: model_pb2.ModelSpec, context: grpc.ServicerContext) -> Target:
    choice = spec.WhichOneof("version_choice")
    cancellation = Cancellation()
    if not context.add_callback(cancellation.cancel):
        cancellation.cancel()
    return Target(
        spec.name,
        spec.version.value if choice == "version" else None,
        spec.version_label if choice == "version_label" else None,
        spec.signature_name,
        _timeout(context),
        cancellation,
    )


def _timeout(context: grpc.ServicerContext) -> float | None:
    """Returns the seconds until the client's deadline; None without a deadline."""
    remaining = context.time_remaining()
    # Without a deadline, grpc returns more than the maximum time-out of a lock.
    return remaining if remaining is not None and remaining < threading.TIMEOUT_MAX else None


def _spec(target: Target, version: int, signature: str = "") -> model_pb2.ModelSpec:
    spec = model_pb2.ModelSpec(name=target.name, signature_name=signature)
    spec.version.value = version
    return spec

"""TF Serving's gRPC services PredictionService and ModelService, on the stubs of tensorflow-serving-api."""

# ruff: noqa: N802 (methods are named as in the service definitions)
from __future__ import annotations

import contextlib
from collections.abc import Iterator
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
from bert_tf.serving.errors import ServingError
from bert_tf.serving.grpc.reader import Call
from bert_tf.serving.reloading import reload_models
from bert_tf.serving.requests.tensors import Arrays, Specs, array_of, check_names, tensor_proto
from bert_tf.serving.service import GRPC, Service, Target

SIGNATURE_DEF = "signature_def"
_STATES = get_model_status_pb2.ModelVersionStatus.State
_HEALTH = health_pb2.HealthCheckResponse


def add_services(server: grpc.aio.Server, service: Service, *, allow_reload: bool) -> None:
    """Adds PredictionService, ModelService and the health check to a server; their methods take a message and a Call.

    Args:
        server: server with a `RequestReader`.
        service: answers the requests.
        allow_reload: True if HandleReloadConfigRequest may change the models.
    """
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(_Prediction(service), server)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(_Models(service, allow_reload=allow_reload), server)
    server.add_generic_rpc_handlers((_health_handler(service),))


class _Prediction(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, service: Service) -> None:
        self._service = service

    def Predict(self, request: predict_pb2.PredictRequest, call: Call) -> Any:
        with _request(self._service, request, call, "Predict") as target:

            def inputs(specs: Specs) -> Arrays:
                check_names(request.inputs.keys(), specs.keys())
                return {name: array_of(request.inputs[name], spec, name) for name, spec in specs.items()}

            version, outputs = self._service.predict(target, inputs, list(request.output_filter))
            response = predict_pb2.PredictResponse(model_spec=_spec(target, version, target.signature_name))
            for name, array in outputs.items():
                response.outputs[name].CopyFrom(tensor_proto(array))
            return response

    def Classify(self, request: classification_pb2.ClassificationRequest, call: Call) -> Any:
        return self._run_examples(request, call, CLASSIFY, classification_pb2.ClassificationResponse)

    def Regress(self, request: regression_pb2.RegressionRequest, call: Call) -> Any:
        return self._run_examples(request, call, REGRESS, regression_pb2.RegressionResponse)

    def _run_examples(self, request: Any, call: Call, verb: str, response: Any) -> Any:
        with _request(self._service, request, call, verb.capitalize()) as target:
            version, result = self._service.run_examples(target, verb, request.input)
            return response(model_spec=_spec(target, version, target.signature_name), result=result)

    def MultiInference(self, request: inference_pb2.MultiInferenceRequest, call: Call) -> Any:
        spec = request.tasks[0].model_spec if request.tasks else model_pb2.ModelSpec()
        with self._service.request(spec.name, "MultiInference", GRPC):
            if not request.tasks:
                raise ServingError("Inference request must have at least one task")
            target = _target(spec, call)
            version, answers = self._service.infer(target, request.tasks, request.input)
            response = inference_pb2.MultiInferenceResponse()
            for signature, answer in answers:
                result = response.results.add(model_spec=_spec(target, version, signature))
                if isinstance(answer, classification_pb2.ClassificationResult):
                    result.classification_result.CopyFrom(answer)
                else:
                    result.regression_result.CopyFrom(answer)
            return response

    def GetModelMetadata(self, request: get_model_metadata_pb2.GetModelMetadataRequest, call: Call) -> Any:
        with _request(self._service, request, call, "GetModelMetadata") as target:
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

    def GetModelStatus(self, request: get_model_status_pb2.GetModelStatusRequest, call: Call) -> Any:
        with _request(self._service, request, call, "GetModelStatus") as target:
            response = get_model_status_pb2.GetModelStatusResponse()
            for state in self._service.status(target):
                added = response.model_version_status.add(version=state.version, state=_STATES.Value(state.state))
                if state.error:
                    added.status.error_code = grpc.StatusCode[state.error_code].value[0]
                    added.status.error_message = state.error
            return response

    def HandleReloadConfigRequest(self, request: model_management_pb2.ReloadConfigRequest, call: Call) -> Any:
        with self._service.request("", "HandleReloadConfigRequest", GRPC):
            if not self._allow_reload:
                message = (
                    "this server does not accept configuration changes by request; start it with "
                    "--allow_reload_config, or with --model_config_file and --model_config_file_poll_wait_seconds"
                )
                raise ServingError(message, grpc.StatusCode.UNIMPLEMENTED)
            reload_models(self._service.manager, request, call.timeout)
            return model_management_pb2.ReloadConfigResponse()


def _health_handler(service: Service) -> grpc.GenericRpcHandler:
    """Returns the handler of the standard health check `grpc.health.v1.Health/Check`, for probes and load balancers.

    A check names one model, or is empty for all models. The status is SERVING if each of them has an available version,
    NOT_SERVING if not or during a shutdown, and NOT_FOUND for an unknown name.

    `Watch` is not implemented. By gRPC's definition, a watching client treats UNIMPLEMENTED as healthy.
    """

    def check(request: health_pb2.HealthCheckRequest, call: Call) -> health_pb2.HealthCheckResponse:
        known = service.manager.names
        if request.service and request.service not in known:
            raise ServingError(f"no model is named {request.service!r}", grpc.StatusCode.NOT_FOUND)
        names = [request.service] if request.service else known
        ready = all(map(service.ready, names)) and not service.draining
        return _HEALTH(status=_HEALTH.SERVING if ready else _HEALTH.NOT_SERVING)

    handler = grpc.unary_unary_rpc_method_handler(
        check, health_pb2.HealthCheckRequest.FromString, _HEALTH.SerializeToString
    )
    name = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
    return grpc.method_handlers_generic_handler(name, {"Check": handler})


@contextlib.contextmanager
def _request(service: Service, request: Any, call: Call, api: str) -> Iterator[Target]:
    with service.request(request.model_spec.name, api, GRPC):
        if not request.HasField("model_spec"):
            raise ServingError("Missing ModelSpec")
        yield _target(request.model_spec, call)


def _target(spec: model_pb2.ModelSpec, call: Call) -> Target:
    choice = spec.WhichOneof("version_choice")
    return Target(
        spec.name,
        spec.version.value if choice == "version" else None,
        spec.version_label if choice == "version_label" else None,
        spec.signature_name,
        call.timeout,
        call.cancellation,
    )


def _spec(target: Target, version: int, signature: str = "") -> model_pb2.ModelSpec:
    spec = model_pb2.ModelSpec(name=target.name, signature_name=signature)
    spec.version.value = version
    return spec

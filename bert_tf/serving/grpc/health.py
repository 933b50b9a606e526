"""The standard gRPC health check `grpc.health.v1.Health/Check`, for probes and load balancers.

`Watch` is not implemented. Each open watch would hold a thread of the server, so that a few clients could block all
requests. By gRPC's definition, a watching client treats UNIMPLEMENTED as healthy.
"""

from __future__ import annotations

import grpc
from grpc_health.v1 import health_pb2

from bert_tf.serving.service import Service

_STATUS = health_pb2.HealthCheckResponse
_SERVICE = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name


def health_handler(service: Service) -> grpc.GenericRpcHandler:
    """Returns the handler of health checks.

    A check names one model, or is empty for all models. The status is SERVING if each of them has an available version,
    NOT_SERVING if not or during a shutdown, and NOT_FOUND for an unknown name.
    """

    def check(request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext) -> health_pb2.HealthCheckResponse:
        known = service.manager.names
        if request.service and request.service not in known:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no model is named {request.service!r}")
        names = [request.service] if request.service else known
        ready = all(map(service.ready, names)) and not service.draining
        return _STATUS(status=_STATUS.SERVING if ready else _STATUS.NOT_SERVING)

    handler = grpc.unary_unary_rpc_method_handler(
        check, health_pb2.HealthCheckRequest.FromString, _STATUS.SerializeToString
    )
    # The generated class would also register `Watch`, whose thread waits for a message before it can reject the call.
    return grpc.method_handlers_generic_handler(_SERVICE, {"Check": handler})

"""The standard health check of gRPC, `grpc.health.v1.Health/Check`, for probes and load balancers.

`Watch` is not implemented. Each open watch would hold a thread of the server, so that a few clients could keep out
all requests. A client that watches takes UNIMPLEMENTED as healthy, by gRPC's definition.
"""

from __future__ import annotations

import grpc
from grpc_health.v1 import health_pb2

from bert_tf.serving.service import Service

_STATUS = health_pb2.HealthCheckResponse
_SERVICE = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name


def health_handler(service: Service) -> grpc.GenericRpcHandler:
    """Returns the handler of health checks.

    A check names a model, or nothing for all models. It is answered by SERVING if each of them has a version that
    answers, by NOT_SERVING if not or if the server is being stopped, and by NOT_FOUND for another name.

    Args:
        service: has the models.
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
    # The generated class would register `Watch` too, whose thread waits for a message before it can refuse.
    return grpc.method_handlers_generic_handler(_SERVICE, {"Check": handler})

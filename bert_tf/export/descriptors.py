"""`python -m bert_tf.export.descriptors FILE.protoset` writes TF Serving's services and messages for grpcurl.

TF Serving does not support server reflection. A client without stubs needs a description of services and messages: a
FileDescriptorSet, as `protoc --include_imports --descriptor_set_out` writes it from the sources.
"""

from __future__ import annotations

if __name__ == "__main__":
    from bert_tf.entry.quiet import import_tensorflow

    import_tensorflow()

import contextlib
import importlib
import sys
from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import FileDescriptor

from bert_tf.config.files import staged_file
from bert_tf.entry.errors import run_program

SERVICES = ("prediction_service", "model_service")


def descriptor_set() -> descriptor_pb2.FileDescriptorSet:
    """Returns the files of PredictionService and ModelService and all their imports, each after its imports."""
    files: dict[str, FileDescriptor] = {}
    for service in SERVICES:
        _collect(_service_file(service), files)
    protos = (descriptor_pb2.FileDescriptorProto.FromString(file.serialized_pb) for file in files.values())
    return descriptor_pb2.FileDescriptorSet(file=protos)


def _service_file(name: str) -> FileDescriptor:
    """Returns the file of a service.

    With protobuf 5 and later, the modules of services of tensorflow-serving-api 2.20 raise AttributeError after they
    have added their file to the pool. The modules of messages and gRPC are not affected.
    """
    with contextlib.suppress(AttributeError):
        importlib.import_module(f"tensorflow_serving.apis.{name}_pb2")
    return descriptor_pool.Default().FindFileByName(f"tensorflow_serving/apis/{name}.proto")


def _collect(file: FileDescriptor, files: dict[str, FileDescriptor]) -> None:
    if file.name not in files:
        for imported in file.dependencies:
            _collect(imported, files)
        files[file.name] = file


def main(arguments: list[str]) -> int:
    """Writes the descriptor set and returns the exit status."""
    if len(arguments) != 1:
        print("usage: python -m bert_tf.export.descriptors FILE.protoset", file=sys.stderr)
        return 2
    with staged_file(Path(arguments[0])) as file:
        file.write(descriptor_set().SerializeToString())
    return 0


if __name__ == "__main__":
    sys.exit(run_program(lambda: main(sys.argv[1:])))

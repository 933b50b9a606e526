"""`python -m bert_tf.export.descriptors FILE.protoset`: TF Serving's services and messages, as grpcurl reads them.

TF Serving answers no reflection. A client without stubs has to be told what the services are called and what their
messages look like: a FileDescriptorSet, which `protoc --include_imports --descriptor_set_out` would write from sources.
"""

from __future__ import annotations

if __name__ == "__main__":
    from bert_tf.entry.quiet import import_tensorflow

    import_tensorflow()

import sys
from pathlib import Path

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import FileDescriptor
from tensorflow_serving.apis import model_service_pb2, prediction_service_pb2

from bert_tf.data.atomic_files import staged_file
from bert_tf.entry.errors import run_program

SERVICES = (prediction_service_pb2, model_service_pb2)


def descriptor_set() -> descriptor_pb2.FileDescriptorSet:
    """Returns the files of PredictionService and ModelService and all that they import, each after its imports."""
    found: dict[str, FileDescriptor] = {}
    for service in SERVICES:
        _collect(service.DESCRIPTOR, found)
    files = (descriptor_pb2.FileDescriptorProto.FromString(file.serialized_pb) for file in found.values())
    return descriptor_pb2.FileDescriptorSet(file=files)


def _collect(file: FileDescriptor, found: dict[str, FileDescriptor]) -> None:
    if file.name not in found:
        for imported in file.dependencies:
            _collect(imported, found)
        found[file.name] = file


def main(arguments: list[str]) -> int:
    """Writes the set; returns the exit status."""
    if len(arguments) != 1:
        print("usage: python -m bert_tf.export.descriptors FILE.protoset", file=sys.stderr)
        return 2
    with staged_file(Path(arguments[0])) as file:
        file.write(descriptor_set().SerializeToString())
    return 0


if __name__ == "__main__":
    sys.exit(run_program(lambda: main(sys.argv[1:])))

"""`python -m bert_tf.export.conformance FOLDER --rest URL --grpc HOST:PORT` compares a server with TF Serving.

Sends the recorded requests of an exported version (assets.extra/recorded.npz) over REST, in row and column format, and
over gRPC, and compares the outputs. Requests status and metadata. Sends invalid requests and checks the HTTP status or
gRPC code, and the message if its wording is part of the interface. Works with the embedded server and with TF Serving.
Prints one line for each unexpected response; the exit status is 1 if there are any.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Iterator
from pathlib import Path

from bert_tf.export.conformance.requests import Check, GrpcServer, RestServer
from bert_tf.export.metadata import METHODS, signature_defs
from bert_tf.export.verify.comparison import RECORDING, Case, Tensors, compare_outputs, read_recording

Ask = Callable[[str, Tensors], Tensors]
# A signature that TensorFlow adds; a server may list it.
_INITIALIZER = "__saved_model_init_op"


def checks(folder: Path, rest: RestServer | None, grpc: GrpcServer | None) -> Iterator[Check]:
    """Yields all checks of a served version over REST and gRPC, unless one is None; `folder` has its recording."""
    signatures = set(signature_defs(folder)) - {_INITIALIZER}
    cases, _ = read_recording(folder / RECORDING)
    for number, case in enumerate(cases):
        for way, ask in _ways(case.signature, case.inputs, rest, grpc):
            yield f"{way} {case.signature}, recording {number}", functools.partial(_wrong_outputs, ask, case)
    for way, server in (("REST", rest), ("gRPC", grpc)):
        if server is not None:
            yield f"{way} status", server.status
            yield f"{way} metadata", functools.partial(_wrong_metadata, server, signatures)
            for name, run in server.bad_requests():
                yield f"{way}, {name}", run


def _ways(
    signature: str, inputs: Tensors, rest: RestServer | None, grpc: GrpcServer | None
) -> Iterator[tuple[str, Ask]]:
    """Yields the interfaces and formats in which these inputs can be sent."""
    method = METHODS.get(signature, "").rpartition("/")[2]
    rows = {len(array) for array in inputs.values()}
    if rest is not None:
        # JSON cannot represent the shape of an empty list of lists, and classify and regress need an example.
        empty = 0 in rows
        if not (empty and any(array.ndim > 1 for array in inputs.values())):
            yield "REST columns", rest.columns
        if not empty and len(rows) == 1:
            yield "REST rows", rest.rows
        if method and not empty:
            yield f"REST {method}", rest.examples
    if grpc is not None:
        yield "gRPC", grpc.predict
        if method and 0 not in rows:
            yield f"gRPC {method}", grpc.examples


def _wrong_outputs(ask: Ask, case: Case) -> str:
    outputs, expected = ask(case.signature, case.inputs), case.outputs
    # An empty JSON list has neither shape nor dtype.
    shaped = {
        name: expected[name] if name in expected and expected[name].size == array.size == 0 else array
        for name, array in outputs.items()
    }
    return "; ".join(f"{name}: {fault}" for name, _, fault in compare_outputs(shaped, case) if fault)


def _wrong_metadata(server: RestServer | GrpcServer, signatures: set[str]) -> str:
    names = set(server.signatures()) - {_INITIALIZER}
    return "" if names == signatures else f"signatures {sorted(names)}; expected {sorted(signatures)}"


def main(arguments: list[str] | None = None) -> int:
    """Runs all checks and returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="folder of the served version: saved_models/NAME/VERSION")
    parser.add_argument("--rest", help="address of the REST interface: http://HOST:PORT")
    parser.add_argument("--grpc", help="address of the gRPC interface: HOST:PORT")
    parser.add_argument("--name", help="name of the model on the server; default: NAME of the folder")
    args = parser.parse_args(arguments)
    if not (args.rest or args.grpc):
        parser.error("at least one of --rest and --grpc is required")
    folder = args.folder.resolve()
    name = args.name or folder.parent.name
    rest = RestServer(args.rest.rstrip("/"), name, int(folder.name)) if args.rest else None
    grpc = GrpcServer(args.grpc, name, int(folder.name)) if args.grpc else None
    results = [(name, _result(run)) for name, run in checks(folder, rest, grpc)]
    failures = [f"FAILED {name}: {wrong}" for name, wrong in results if wrong]
    for line in failures:
        print(line)
    print(f"{len(results)} requests, {len(failures)} not answered as TF Serving does")
    return 1 if failures else 0


def _result(run: Callable[[], str]) -> str:
    try:
        return run()
    except Exception as error:
        return f"{type(error).__name__}: {error}"

"""Transport-independent request handling: predict, classify, regress, status and metadata."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import inference_pb2, input_pb2

from bert_tf.export.metadata import METHODS
from bert_tf.serving.errors import ServingError, is_our_fault, serving_error
from bert_tf.serving.metrics import Metrics
from bert_tf.serving.models.loaded_version import LoadedVersion
from bert_tf.serving.models.manager import ModelManager
from bert_tf.serving.models.model_card import public_facts
from bert_tf.serving.models.versions import VersionState
from bert_tf.serving.requests.admission import Admission
from bert_tf.serving.requests.cancellation import Cancellation
from bert_tf.serving.requests.examples import EXAMPLE_METHODS, check_signature, checked_tasks, serialized_examples
from bert_tf.serving.requests.tensors import MAX_TEXT_BYTES, Arrays, Specs, check_arrays

logger = logging.getLogger(__name__)

REST, GRPC = "REST", "GRPC"


@dataclass(frozen=True)
class Target:
    """Target of a request: a version by number or label, or the highest one, and a signature."""

    name: str
    version: int | None = None
    label: str | None = None
    signature: str = ""  # empty for `serving_default`
    timeout: float | None = None  # seconds that the client waits; None for no time-out
    cancellation: Cancellation = field(default_factory=Cancellation)  # if the client disconnects
    interface: str = GRPC  # `REST` or `GRPC`

    @property
    def signature_name(self) -> str:
        """Name of the signature, with the default filled in."""
        return self.signature or tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


class Service:
    """Runs requests of all interfaces on loaded versions; rejects texts and examples of more than `max_text_bytes`."""

    def __init__(
        self, manager: ModelManager, metrics: Metrics, admission: Admission, max_text_bytes: int = MAX_TEXT_BYTES
    ) -> None:
        self.manager = manager
        self.metrics = metrics
        self.admission = admission
        self._max_text_bytes = max_text_bytes
        self.draining = False

    def drain(self) -> None:
        """Marks all models as not ready; requests are still answered."""
        self.draining = True

    def ready(self, name: str) -> bool:
        """Returns True if a model has an available version and the server is not shutting down."""
        return not self.draining and self.manager.ready(name)

    def busy_seconds(self) -> float:
        """Returns the longest time in seconds that a request has waited or a batch has run."""
        return max((version.busy_seconds() for version in self.manager.loaded()), default=0.0)

    @contextlib.contextmanager
    def request(self, name: str, api: str, entrypoint: str) -> Iterator[None]:
        """Counts the request of a block by gRPC method or REST verb, and converts its errors to ServingError."""
        with self.metrics.request(name if name in self.manager.names else "", api, entrypoint) as outcome:
            try:
                yield
            except Exception as error:
                client_error = serving_error(error)
                outcome.code = client_error.code.name
                if is_our_fault(client_error):
                    logger.error("a request failed", exc_info=error)
                raise client_error from error

    def predict(
        self, target: Target, inputs: Callable[[Specs], Arrays], output_filter: Sequence[str] = ()
    ) -> tuple[int, Arrays]:
        """Runs a predict request; returns the version, and the outputs in `output_filter`, or all if it is empty.

        `inputs` converts the request to arrays, for the inputs of the signature. Raises ServingError for an invalid
        request, tf.errors.OpError for inputs that the graph rejects.
        """
        name = target.signature_name
        with self._lease(target) as version:
            if name not in version.signatures:
                # TF Serving's interfaces differ in this error.
                if target.interface == REST:
                    raise ServingError(f'Serving signature name: "{name}" not found in signature def')
                raise ServingError(f'Serving signature key "{name}" not found.', grpc.StatusCode.FAILED_PRECONDITION)
            _check_filter(version.signature_defs[name], output_filter)
            outputs = self._run(version, target, "Predict", name, inputs(version.specs(name)))
            wanted = output_filter or outputs
            return version.version, {output: outputs[output] for output in wanted}

    def run_examples(self, target: Target, verb: str, examples: input_pb2.Input) -> tuple[int, Any]:
        """Returns the version and result of a `classify` or `regress` request. Raises the errors of `predict`."""
        name, method = target.signature_name, EXAMPLE_METHODS[METHODS[verb]]
        with self._lease(target) as version:
            if name not in version.signatures:
                raise ServingError(f"No signature was found with the name: {name}")
            check_signature(version.signature_defs[name], method)
            inputs = serialized_examples(examples, self._max_text_bytes)
            outputs = self._run(version, target, verb.capitalize(), name, inputs)
            return version.version, method.result(outputs)

    def infer(
        self, target: Target, tasks: Sequence[inference_pb2.InferenceTask], examples: input_pb2.Input
    ) -> tuple[int, list[tuple[str, Any]]]:
        """Runs classify and regress tasks on the same examples with one version; raises the errors of `predict`.

        All tasks are checked before any is run. Returns the version, and signature and result of each task.
        """
        with self._lease(target) as version:
            methods = checked_tasks(tasks, version.signature_defs)
            inputs = serialized_examples(examples, self._max_text_bytes)
            return version.version, [
                (name, method.result(self._run(version, target, "MultiInference", name, inputs)))
                for name, method in methods.items()
            ]

    def metadata(self, target: Target) -> tuple[int, dict[str, meta_graph_pb2.SignatureDef]]:
        """Returns a version and its signatures. Raises ServingError if the version does not exist."""
        with self._lease(target) as version:
            return version.version, version.signature_defs

    def labels(self) -> dict[str, list[str]]:
        """Returns the class names of all models, in the order of the probabilities; [] for a model without version."""
        labels: dict[str, list[str]] = {}
        for name in self.manager.names:
            labels[name] = []
            with contextlib.suppress(ServingError), self.manager.lease(name) as version:
                labels[name] = version.labels
        return labels

    def card(self, target: Target) -> dict[str, Any]:
        """Returns a version, all available versions, the highest first, and the public facts of the model card.

        Raises ServingError if the version does not exist.
        """
        with self._lease(target) as version:
            facts = public_facts(version.card)
            return {"version": version.version, "versions": self.manager.serving(target.name), "card": facts}

    def status(self, target: Target) -> list[VersionState]:
        """Returns the states of a model's versions. Raises ServingError if there are none."""
        return self.manager.status(target.name, target.version, target.label)

    def _run(self, version: LoadedVersion, target: Target, api: str, signature: str, inputs: Arrays) -> Arrays:
        check_arrays(inputs, self._max_text_bytes)
        target.cancellation.check()
        with self.metrics.runtime(target.name, api):
            return version.answer(signature, inputs, target.timeout, target.cancellation)

    def _lease(self, target: Target) -> contextlib.AbstractContextManager[LoadedVersion]:
        if not target.name:
            raise ServingError("ModelSpec has no name specified.")
        return self.manager.lease(target.name, target.version, target.label)


def _check_filter(definition: meta_graph_pb2.SignatureDef, wanted: Sequence[str]) -> None:
    for number, alias in enumerate(wanted):
        if alias not in definition.outputs:
            known = ",".join(sorted(definition.outputs))
            raise ServingError(
                f"output tensor alias not found in signature: {alias} Outputs expected to be in the set {{{known}}}."
            )
        if alias in wanted[:number]:
            raise ServingError(f"duplicate output tensor alias: {alias}")

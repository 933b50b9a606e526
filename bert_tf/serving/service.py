"""What a server answers, whatever carries the request: predict, classify, regress, status and metadata."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import classification_pb2, inference_pb2, input_pb2, regression_pb2

from bert_tf.export.metadata import CLASSIFY, METHODS, REGRESS
from bert_tf.serving.admission import Admission
from bert_tf.serving.batching import Arrays
from bert_tf.serving.cancellation import Cancellation
from bert_tf.serving.errors import ServingError, is_our_fault, serving_error
from bert_tf.serving.examples import EXAMPLE_METHODS, check_signature, checked_tasks, serialized_examples
from bert_tf.serving.loaded_version import LoadedVersion, Specs
from bert_tf.serving.manager import ModelManager, VersionState
from bert_tf.serving.metrics import Metrics
from bert_tf.serving.tensors import MAX_TEXT_BYTES, check_arrays

logger = logging.getLogger(__name__)

REST, GRPC = "REST", "GRPC"


@dataclass(frozen=True)
class Target:
    """What a request asks.

    Args:
        name: of the model.
        version: the highest one where None.
        label: instead of a version.
        signature: `serving_default` where empty.
        timeout: seconds that the client waits; None for ever.
        cancellation: cancels the work where the client has gone.
    """

    name: str
    version: int | None = None
    label: str | None = None
    signature: str = ""
    timeout: float | None = None
    cancellation: Cancellation = field(default_factory=Cancellation)

    @property
    def signature_name(self) -> str:
        """Name of the signature that is meant."""
        return self.signature or tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


@dataclass(frozen=True)
class Answer:
    """Outputs, and which version they are from.

    Args:
        version: its number.
        signature: its name.
        outputs: arrays by name; strings as objects of bytes.
    """

    version: int
    signature: str
    outputs: Arrays


class Service:
    """Answers requests from the versions that a manager has loaded.

    Args:
        manager: has the models.
        metrics: counts.
        admission: bounds the requests that all surfaces hold.
        max_text_bytes: longer texts, and longer serialized examples, are refused.

    Attributes:
        draining: whether the server is about to stop.
    """

    def __init__(
        self, manager: ModelManager, metrics: Metrics, admission: Admission, max_text_bytes: int = MAX_TEXT_BYTES
    ) -> None:
        self.manager = manager
        self.metrics = metrics
        self.admission = admission
        self._max_text_bytes = max_text_bytes
        self.draining = False

    def drain(self) -> None:
        """Makes models not ready from now on; requests are still answered."""
        self.draining = True

    def ready(self, name: str) -> bool:
        """Returns whether a model has a version that answers, and the server is not about to stop."""
        return not self.draining and self.manager.ready(name)

    def busy_seconds(self) -> float:
        """Returns for how long the oldest request has waited, or the oldest batch has run."""
        return max((version.busy_seconds() for version in self.manager.loaded()), default=0.0)

    @contextlib.contextmanager
    def request(self, name: str, api: str, entrypoint: str) -> Iterator[None]:
        """Counts what a block answers, and makes of any error the one that clients are told.

        Args:
            name: of the model.
            api: of gRPC, for example `Predict` or `GetModelStatus`; of REST, `predict`, `classify` or `regress`.
            entrypoint: `REST` or `GRPC`.

        Raises:
            ServingError: for whatever the block raised.
        """
        with self.metrics.request(name if name in self.manager.names else "", api, entrypoint) as outcome:
            try:
                yield
            except Exception as error:
                told = serving_error(error)
                outcome.code = told.code.name
                if is_our_fault(told):
                    logger.error("a request failed", exc_info=error)
                raise told from error

    def predict(
        self,
        target: Target,
        inputs: Callable[[Specs], Arrays],
        unknown: Callable[[str], ServingError],
        output_filter: Sequence[str] = (),
    ) -> Answer:
        """Answers a predict request.

        Args:
            target: what is asked.
            inputs: makes arrays of the request, given the signature's inputs.
            unknown: the error for a signature that there is not.
            output_filter: outputs that are wanted; all where empty.

        Raises:
            ServingError: for whatever is wrong with the request.
            tf.errors.OpError: for inputs that the graph refuses.
        """
        name = target.signature_name
        with self._leased(target) as version:
            if name not in version.signatures:
                raise unknown(name)
            _check_filter(version.signature_defs[name], output_filter)
            outputs = self._run(version, target, "Predict", name, inputs(version.specs(name)))
            wanted = output_filter or outputs
            return Answer(version.version, name, {output: outputs[output] for output in wanted})

    def classify(
        self, target: Target, examples: input_pb2.Input
    ) -> tuple[int, classification_pb2.ClassificationResult]:
        """Answers a classify request: the version, and a class and score for each class of each example.

        Raises:
            ServingError, tf.errors.OpError: as `predict`.
        """
        return self._examples(target, examples, "Classify", METHODS[CLASSIFY])

    def regress(self, target: Target, examples: input_pb2.Input) -> tuple[int, regression_pb2.RegressionResult]:
        """Answers a regress request: the version, and a number for each example.

        Raises:
            ServingError, tf.errors.OpError: as `predict`.
        """
        return self._examples(target, examples, "Regress", METHODS[REGRESS])

    def infer(
        self, target: Target, tasks: Sequence[inference_pb2.InferenceTask], examples: input_pb2.Input
    ) -> tuple[int, list[tuple[str, Any]]]:
        """Answers several classify and regress tasks on the same examples, all by one version.

        Args:
            target: which model and version.
            tasks: at least one.
            examples: of the request.

        Returns:
            The version, and of each task the signature and a ClassificationResult or RegressionResult.

        Raises:
            ServingError: for whatever is wrong with a task, before any is answered.
            tf.errors.OpError: as `predict`.
        """
        with self._leased(target) as version:
            methods = checked_tasks(tasks, version.signature_defs)
            inputs = serialized_examples(examples)
            return version.version, [
                (name, method.result(self._run(version, target, "MultiInference", name, inputs)))
                for name, method in methods.items()
            ]

    def metadata(self, target: Target) -> tuple[int, dict[str, meta_graph_pb2.SignatureDef]]:
        """Returns a version and its signatures. Raises ServingError where there is none."""
        with self._leased(target) as version:
            return version.version, version.signature_defs

    def labels(self) -> dict[str, list[str]]:
        """Returns the models that answer, each with the names of its classes, in the order of its probabilities."""
        found = {}
        for name in self.manager.names:
            # A model may be dropped from the configuration meanwhile.
            with contextlib.suppress(ServingError), self.manager.lease(name) as version:
                found[name] = version.labels
        return found

    def status(self, target: Target) -> list[VersionState]:
        """Returns the states of a model's versions. Raises ServingError where there is none."""
        return self.manager.status(target.name, target.version, target.label)

    def _examples(self, target: Target, examples: input_pb2.Input, api: str, method_name: str) -> tuple[int, Any]:
        name, method = target.signature_name, EXAMPLE_METHODS[method_name]
        with self._leased(target) as version:
            if name not in version.signatures:
                raise ServingError(f"No signature was found with the name: {name}")
            check_signature(version.signature_defs[name], method)
            answered = self._run(version, target, api, name, serialized_examples(examples))
            return version.version, method.result(answered)

    def _run(self, version: LoadedVersion, target: Target, api: str, signature: str, inputs: Arrays) -> Arrays:
        check_arrays(inputs, self._max_text_bytes)
        target.cancellation.check()
        with self.metrics.runtime(target.name, api):
            return version.answer(signature, inputs, target.timeout, target.cancellation)

    def _leased(self, target: Target) -> contextlib.AbstractContextManager[LoadedVersion]:
        if not target.name:
            raise ServingError("ModelSpec has no name specified.")
        return self.manager.lease(target.name, target.version, target.label)


def unknown_signature(name: str) -> ServingError:
    """Returns what gRPC's Predict says of a signature that there is not."""
    return ServingError(f'Serving signature key "{name}" not found.', grpc.StatusCode.FAILED_PRECONDITION)


def unknown_signature_of_rest(name: str) -> ServingError:
    """Returns what REST's predict says of a signature that there is not."""
    return ServingError(f'Serving signature name: "{name}" not found in signature def')


def _check_filter(definition: meta_graph_pb2.SignatureDef, wanted: Sequence[str]) -> None:
    for number, alias in enumerate(wanted):
        if alias not in definition.outputs:
            known = ",".join(sorted(definition.outputs))
            raise ServingError(
                f"output tensor alias not found in signature: {alias} Outputs expected to be in the set {{{known}}}."
            )
        if alias in wanted[:number]:
            raise ServingError(f"duplicate output tensor alias: {alias}")

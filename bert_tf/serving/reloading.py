"""Other models at run time: from a configuration file that is looked at again and again, or from a request."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import grpc
from tensorflow_serving.apis.model_management_pb2 import ReloadConfigRequest

from bert_tf.config import ConfigError
from bert_tf.serving.configuration import ServedModel, read_model_config, served_models
from bert_tf.serving.errors import ServingError
from bert_tf.serving.manager import ModelManager

logger = logging.getLogger(__name__)


class ModelConfigFile:
    """A `--model_config_file` that may change.

    Args:
        path: of the file.
        models: what it said last.
    """

    def __init__(self, path: Path, models: Sequence[ServedModel]) -> None:
        self.path = path
        self.models = list(models)
        self._error = ""

    def changed(self) -> bool:
        """Reads the file; returns True if `models` are others than before.

        A file that cannot be read, or is not valid, changes nothing. It is logged once.
        """
        try:
            models = read_model_config(self.path)
        except (ConfigError, OSError) as error:
            if str(error) != self._error:
                self._error = str(error)
                logger.error("the models stay as they are: %s", error)
            return False
        self._error = ""
        before, self.models = self.models, models
        return before != models

    @contextlib.contextmanager
    def watched(self, apply: Callable[[Sequence[ServedModel]], None], seconds: float) -> Iterator[None]:
        """Looks at the file from time to time during a block, and applies what it says when that has changed.

        Args:
            apply: called with all models, in a thread.
            seconds: between two looks.
        """
        stopping = threading.Event()

        def watch() -> None:
            while not stopping.wait(seconds):
                if self.changed():
                    logger.info("%s has changed: serving %s", self.path, ", ".join(m.name for m in self.models))
                    apply(self.models)

        thread = threading.Thread(target=watch, name="model_config_file", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join()


def reload_models(manager: ModelManager, request: ReloadConfigRequest, timeout: float | None) -> None:
    """Serves the models of a request, and waits until they are loaded.

    Args:
        manager: serves them.
        request: of HandleReloadConfigRequest; base paths must be absolute.
        timeout: seconds; None waits for as long as it takes.

    Raises:
        ServingError: INVALID_ARGUMENT for an invalid configuration, which changes nothing; FAILED_PRECONDITION if a
            model has no version that can be served.
        TimeoutError: if loading takes longer; it goes on.
    """
    if request.metric_names:
        raise ServingError("metric_names are not supported; leave them out")
    try:
        models = served_models(request.config, "the request", None)
    except ConfigError as error:
        raise ServingError(str(error)) from error
    names = [model.name for model in models]
    logger.warning("a request changes the configuration: serving %s", ", ".join(names))
    manager.reload(models)
    manager.wait_loaded(names, timeout)
    missing = [f"{name}: {why_not_ready(manager, name)}" for name in names if not manager.ready(name)]
    if missing:
        message = f"the configuration was taken over, but models cannot be served: {'; '.join(missing)}"
        raise ServingError(message, grpc.StatusCode.FAILED_PRECONDITION)


def why_not_ready(manager: ModelManager, name: str) -> str:
    """Returns why a model has no version that answers."""
    try:
        return manager.status(name)[0].error
    except ServingError as error:
        # None of the versions that are there is one that is wanted.
        return str(error)

"""Changes the served models at run time: from a polled configuration file, or from a request."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import grpc
from tensorflow_serving.apis.model_management_pb2 import ReloadConfigRequest

from bert_tf.config import ConfigError
from bert_tf.serving.configuration import read_model_config, served_models
from bert_tf.serving.errors import ServingError
from bert_tf.serving.models.manager import ModelManager
from bert_tf.serving.models.versions import ServedModel
from bert_tf.storage import is_url

logger = logging.getLogger(__name__)


class ModelConfigFile:
    """A `--model_config_file` that may change, and the models that were last read from it."""

    def __init__(self, path: Path | str, models: Sequence[ServedModel]) -> None:
        self.path = path
        self.models = list(models)
        self._error = ""

    def changed(self) -> bool:
        """Reads the file and returns True if `models` changed; an error is logged once and changes nothing."""
        try:
            models = read_model_config(self.path)
        except (ConfigError, OSError) as error:
            if str(error) != self._error:
                self._error = str(error)
                logger.error("the models are unchanged: %s", error)
            return False
        self._error = ""
        before, self.models = self.models, models
        return before != models

    @contextlib.contextmanager
    def watched(self, apply: Callable[[Sequence[ServedModel]], None], seconds: float) -> Iterator[None]:
        """Polls the file during a block, and calls `apply` in a thread with all models after a change."""
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
    """Serves the models of a request, whose base paths must be absolute, and waits until they are loaded.

    URLs must be those of models that are configured already: a client must not make this machine load the graph of
    anybody's bucket. Raises ServingError: INVALID_ARGUMENT for an invalid configuration, which changes nothing;
    FAILED_PRECONDITION if a model has no version that can be served. Raises TimeoutError after `timeout` seconds;
    loading continues.
    """
    if request.metric_names:
        raise ServingError("metric_names are not supported; leave them out")
    try:
        models = served_models(request.config, "the request", None)
    except ConfigError as error:
        raise ServingError(str(error)) from error
    known = manager.base_paths
    if unknown := [model.base_path for model in models if is_url(model.base_path) and model.base_path not in known]:
        raise ServingError(
            "a URL in a request must be the base_path of a model that is configured already. Received: "
            f"{', '.join(map(str, unknown))}. Change the models.config of the server instead."
        )
    names = [model.name for model in models]
    logger.warning("a request changes the configuration: serving %s", ", ".join(names))
    manager.reload(models)
    manager.wait_loaded(names, timeout)
    missing = [f"{name}: {why_not_ready(manager, name)}" for name in names if not manager.ready(name)]
    if missing:
        message = f"the configuration was taken over, but models cannot be served: {'; '.join(missing)}"
        raise ServingError(message, grpc.StatusCode.FAILED_PRECONDITION)


def why_not_ready(manager: ModelManager, name: str) -> str:
    """Returns the reason why a model has no available version."""
    try:
        return manager.status(name)[0].error
    except ServingError as error:
        # The configured versions do not exist.
        return str(error)

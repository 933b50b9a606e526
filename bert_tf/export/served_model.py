"""One loaded version of a SavedModel and its answers in TF Serving's REST form; no HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's operations)

from bert_tf.export.metadata import signature_defs
from bert_tf.export.rest import NOT_FOUND, Request, RestError, answer_json
from bert_tf.export.versions import latest_version

# Memory follows rows, and one request of the largest size could hold millions of them.
MAX_BATCH_SIZE = 128
# Numbers and strings in an answer; as Python objects and JSON they take some 60 bytes each.
MAX_ANSWER_VALUES = 2**22
_DEFAULT_SIGNATURE = "serving_default"


class ServedModel:
    """The highest version of an exported model, loaded.

    Args:
        model_dir: `saved_models/<name>`.

    Raises:
        FileNotFoundError: where there is no version.
        ValueError: where the version is no readable SavedModel.
    """

    def __init__(self, model_dir: str | Path) -> None:
        folder = latest_version(Path(model_dir).resolve())
        self.name, self.version = folder.parent.name, int(folder.name)
        self._definitions = signature_defs(folder)
        try:
            self._loaded = tf.saved_model.load(str(folder))
        except (OSError, tf.errors.OpError) as error:
            raise ValueError(f"{folder}: not a readable SavedModel: {error}") from error

    def status(self, name: str, version: int | None) -> dict[str, Any]:
        """Returns the answer to a status request. Raises RestError for another model or version."""
        if name != self.name:
            raise RestError(f"Could not find any versions of model {name}", NOT_FOUND)
        if version not in (None, self.version):
            raise RestError(f"Could not find version {version} of model {name}", NOT_FOUND)
        health = {"error_code": "OK", "error_message": ""}
        state = {"version": str(self.version), "state": "AVAILABLE", "status": health}
        return {"model_version_status": [state]}

    def metadata(self, name: str, version: int | None) -> dict[str, Any]:
        """Returns the answer to a metadata request. Raises RestError for another model or version."""
        self._check_servable(name, version)
        return {
            "model_spec": {"name": self.name, "signature_name": "", "version": str(self.version)},
            "metadata": {"signature_def": {"signature_def": self._definitions}},
        }

    def predict(self, name: str, version: int | None, body: bytes) -> bytes:
        """Answers the body of a predict request with the body of its answer.

        Raises:
            RestError: for whatever is wrong with the request.
            tf.errors.OpError: for inputs that the graph refuses.
        """
        request = Request.from_json(body)
        self._check_servable(name, version)
        key = request.signature or _DEFAULT_SIGNATURE
        if key not in self._loaded.signatures:
            raise RestError(f'Serving signature name: "{key}" not found in signature def')
        signature = self._loaded.signatures[key]
        specs = signature.structured_input_signature[1]
        arrays = request.arrays(specs)
        rows = max((array.shape[0] for array in arrays.values() if array.ndim), default=0)
        if rows > MAX_BATCH_SIZE:
            raise RestError(f"a request must have at most {MAX_BATCH_SIZE} rows. Received: {rows}")
        outputs = signature(**{name: tf.constant(value, specs[name].dtype) for name, value in arrays.items()})
        size = sum(int(tf.size(tensor)) for tensor in outputs.values())
        if size > MAX_ANSWER_VALUES:
            raise RestError(f"an answer must have at most {MAX_ANSWER_VALUES} values. Received: {size}")
        return answer_json({name: tensor.numpy() for name, tensor in outputs.items()}, rows=request.rows)

    def example(self) -> str:
        """Returns the body of a small predict request for the default signature."""
        default = self._definitions[_DEFAULT_SIGNATURE]
        text = "This is a [MASK]." if "tokens" in default["outputs"] else "This is a sentence."
        is_list = {name: len(info["tensor_shape"]["dim"]) > 1 for name, info in sorted(default["inputs"].items())}
        row = {name: [text, text] if several else text for name, several in is_list.items()}
        return json.dumps({"instances": [row if len(row) > 1 else text]})

    def _check_servable(self, name: str, version: int | None) -> None:
        if name != self.name or version not in (None, self.version):
            wanted = f"Latest({name})" if version is None else f"Specific({name}, {version})"
            raise RestError(f"Servable not found for request: {wanted}", NOT_FOUND)

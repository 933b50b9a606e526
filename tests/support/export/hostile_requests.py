"""Sends hostile tensors to exported models, as a separate program, because a crash must not end the tests.

`python hostile_requests.py KIND=FOLDER...` (version folders) prints one JSON object: "route/kind/signature/case" ->
{"error": name, "message": ...} or {"shapes": {output: shape}}. Each case takes two routes: through the signature of
`tf.saved_model.load`, like the embedded server, and through a session that is fed as in TF Serving, without Python's
check of the shapes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

MAX_LENGTH, VOCABULARY_SIZE = 24, 26
_ANSWER = {"answer": [0], "start": [0], "end": [0], "probability": [0], "null_odds": [0]} | {
    f"n_best_{name}": [0, 5] for name in ("answers", "starts", "ends", "probabilities")
}
_ENTITIES = {name: [0, -1] for name in ("entities", "types", "starts", "ends", "scores")}
_WORDS = _ENTITIES | {name: [0, -1] for name in ("words", "tags", "probabilities")}
_CHOICE = {"choice": [0], "probabilities": [0, 3]}
_LABEL = {"label": [0], "probabilities": [0, 3]}


class Case(NamedTuple):
    """One request. `error` is a part of the message, or None if the outputs must have `shapes`."""

    name: str
    kind: str
    signature: str
    inputs: dict[str, np.ndarray]
    error: str | None = None
    shapes: dict[str, list[int]] | None = None


def _texts(value: Any) -> np.ndarray:
    return np.array(value, dtype=object)


def _ids(**changes: Any) -> dict[str, np.ndarray]:
    """Returns two rows of three valid ids, with `changes`."""
    inputs: dict[str, Any] = {
        "token_ids": [[2, 5, 3]] * 2,
        "segment_ids": [[0, 0, 1]] * 2,
        "padding_mask": [[1, 1, 1]] * 2,
    }
    inputs |= changes
    return {name: np.array(value, np.int32) for name, value in inputs.items()}


def _full(shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    return {name: np.ones(shape, np.int32) for name in ("token_ids", "segment_ids", "padding_mask")}


def _text_cases(kind: str, signature: str, empty: dict[str, list[int]]) -> list[Case]:
    three = {name: [3, *shape[1:]] for name, shape in empty.items()}
    odd = [b"\xff\xfe\x00 cat \xc3", b"\x00", "cat " * 20000]
    rows: list[tuple[str, Any, str | None, dict[str, list[int]] | None]] = [
        ("scalar", "cat", "text", None),
        ("rank 2", [["cat"], ["dog"]], "text", None),
        ("rank 3", [[["cat"]]], "text", None),
        ("rank 2 and empty", np.empty((0, 3)), "text", None),
        ("numbers", np.int32([1]), "string", None),
        ("empty batch", [], None, empty),
        ("bytes, nothing and too much", odd, None, three),
        ("empty strings", ["", " ", "\n"], None, three),
    ]
    return [
        Case(
            name,
            kind,
            signature,
            {"text": value if getattr(value, "dtype", None) == np.int32 else _texts(value)},
            error,
            shapes,
        )
        for name, value, error, shapes in rows
    ]


def _of_rows(empty: dict[str, list[int]], rows: int) -> dict[str, list[int]]:
    return {name: [rows, *shape[1:]] for name, shape in empty.items()}


def _question_cases() -> list[Case]:
    rows: list[tuple[str, Any, Any, str | None, dict[str, list[int]] | None]] = [
        ("scalar", ["cat"], "cat", "context", None),
        ("rank 2", [["cat"]], ["cat"], "question", None),
        ("unequal", ["cat", "dog"], ["cat"], "question and context must have the same number of elements", None),
        ("one empty", ["cat"], [], "question and context must have the same number of elements", None),
        ("empty batch", [], [], None, _ANSWER),
        ("nothing", ["", ""], ["", " "], None, _of_rows(_ANSWER, 2)),
        ("both too long", ["cat " * 99], ["dog " * 9999], None, _of_rows(_ANSWER, 1)),
        ("far too long", ["cat"], ["dog " * 99999], "context must make at most 4096 rows", None),
        ("no UTF-8", [b"\xff cat"], [b"dog \xc3 \x00 cat\xff"], None, _of_rows(_ANSWER, 1)),
    ]
    return [
        Case(name, "spans", "serving_default", {"question": _texts(a), "context": _texts(b)}, error, shapes)
        for name, a, b, error, shapes in rows
    ]


def _choice_cases() -> list[Case]:
    rows: list[tuple[str, Any, Any, str | None, dict[str, list[int]] | None]] = [
        ("scalar", "cat", [["cat"]], "text", None),
        ("rank 1", ["cat"], ["cat"], "choices", None),
        ("unequal", ["cat", "dog"], [["cat"]], "choices must have as many rows as text", None),
        ("no choice", ["cat"], np.empty((1, 0)), "choices must have at least one column", None),
        ("empty batch", [], np.empty((0, 3)), None, _CHOICE),
        ("too many", ["cat"], [["dog"] * 4097], "choices must make at most 4096 rows", None),
        ("nothing and too much", ["", b"\xff"], [["", "", "cat"], ["dog " * 999] * 3], None, _of_rows(_CHOICE, 2)),
    ]
    return [
        Case(name, "choices", "serving_default", {"text": _texts(a), "choices": _texts(b)}, error, shapes)
        for name, a, b, error, shapes in rows
    ]


def _example_cases(kind: str, signature: str, name: str, empty: dict[str, list[int]]) -> list[Case]:
    rows: list[tuple[str, Any, str | None, dict[str, list[int]] | None]] = [
        ("scalar", b"", "examples", None),
        ("rank 2", [[b""]], "examples", None),
        ("no features", [b""], "required but could not be found", None),
        ("no example", [b"not an example"], "Could not parse example input", None),
        ("empty batch", [], None, empty),
    ]
    return [Case(of, kind, signature, {name: _texts(value)}, error, shapes) for of, value, error, shapes in rows]


def _pair_cases() -> list[Case]:
    rows: list[tuple[str, Any, Any, str | None, dict[str, list[int]] | None]] = [
        ("scalar", ["cat"], "cat", "text_pair", None),
        ("rank 2", [["cat"]], ["cat"], "text", None),
        ("unequal", ["cat", "dog"], ["cat"], "text and text_pair must have the same number of elements", None),
        ("one empty", ["cat"], [], "text and text_pair must have the same number of elements", None),
        ("empty batch", [], [], None, {"label": [0], "probabilities": [0, 3]}),
        ("both too long", ["cat " * 99], ["dog " * 99], None, {"label": [1], "probabilities": [1, 3]}),
    ]
    return [
        Case(name, "pair_classifier", "serving_default", {"text": _texts(a), "text_pair": _texts(b)}, error, shapes)
        for name, a, b, error, shapes in rows
    ]


def _id_cases(kind: str, empty: dict[str, list[int]]) -> list[Case]:
    two = {name: [2, *shape[1:]] for name, shape in empty.items()}
    rows: list[tuple[str, dict[str, np.ndarray], str | None, dict[str, list[int]] | None]] = [
        ("empty batch", _full((0, 4)), None, empty),
        ("sequence of length 0", _full((2, 0)), "second dimension of token_ids must lie in 1..24", None),
        ("longer than the model", _full((2, MAX_LENGTH + 1)), "second dimension of token_ids must lie in 1..24", None),
        ("far longer than the model", _full((1, 100000)), "second dimension of token_ids must lie in 1..24", None),
        ("negative id", _ids(token_ids=[[2, -1, 3]] * 2), "token_ids must lie in 0..25", None),
        ("lowest id", _ids(token_ids=[[2, -(2**31), 3]] * 2), "token_ids must lie in 0..25", None),
        ("id V", _ids(token_ids=[[2, VOCABULARY_SIZE, 3]] * 2), "token_ids must lie in 0..25", None),
        ("segment 2", _ids(segment_ids=[[0, 0, 2]] * 2), "segment_ids must lie in 0..1", None),
        ("segment -1", _ids(segment_ids=[[0, 0, -1]] * 2), "segment_ids must lie in 0..1", None),
        ("mask 2", _ids(padding_mask=[[1, 2, 0]] * 2), "padding_mask must lie in 0..1", None),
        ("mask -1", _ids(padding_mask=[[1, -1, 0]] * 2), "padding_mask must lie in 0..1", None),
        ("scalar ids", _ids(token_ids=2), "token_ids", None),
        ("ids of rank 1", _ids(token_ids=[2, 5, 3]), "token_ids", None),
        ("ids of rank 3", _ids(token_ids=[[[2, 5, 3]] * 2]), "token_ids", None),
        ("segments of rank 1", _ids(segment_ids=[0, 0, 0]), "segment_ids", None),
        ("scalar mask", _ids(padding_mask=1), "padding_mask", None),
        ("fewer masks", _ids(padding_mask=[[1, 1]] * 2), "padding_mask must have the shape of token_ids", None),
        ("one row of segments", _ids(segment_ids=[[0, 0, 0]]), "segment_ids must have the shape of token_ids", None),
        ("no row of segments", _ids(segment_ids=np.zeros((0, 3))), "segment_ids must have the shape", None),
        ("strings", _ids() | {"token_ids": _texts([["a"]])}, "int32", None),
        ("nothing but padding", _full((2, 4)) | {"padding_mask": np.zeros((2, 4), np.int32)}, None, two),
    ]
    all_cases = [Case(name, kind, "ids", inputs, error, shapes) for name, inputs, error, shapes in rows]
    if kind == "pretrainer":
        for case in all_cases:
            batch = 0 if case.name == "empty batch" else 2
            case.inputs["mask_positions"] = np.ones((batch, 2), np.int32)
    return all_cases


def _position_cases() -> list[Case]:
    rows: list[tuple[str, Any, str | None, dict[str, list[int]] | None]] = [
        ("none at all", np.zeros((2, 0)), None, {"mlm_logits": [2, 0, VOCABULARY_SIZE], "nsp_logits": [2, 2]}),
        ("position S", [[1, 3]] * 2, "mask_positions must lie in 0..S-1", None),
        ("position -1", [[1, -1]] * 2, "mask_positions must lie in 0..S-1", None),
        ("more than S", [[0, 0, 1, 2]] * 2, "mask_positions must have as many rows as token_ids and no more", None),
        ("one row", [[1]], "mask_positions must have as many rows as token_ids", None),
        ("rank 1", [1, 1], "mask_positions", None),
        ("scalar", 1, "mask_positions", None),
    ]
    return [
        Case(f"positions: {name}", "pretrainer", "ids", _ids(mask_positions=value), error, shapes)
        for name, value, error, shapes in rows
    ]


def _mask_cases() -> list[Case]:
    return [
        Case(
            "too many masks at once",
            "pretrainer",
            "serving_default",
            {"text": _texts(["[MASK]" * 22] * 373)},
            error="[MASK]s in text: rows times the most predictions of a row must be at most 8192",
        ),
        Case(
            "too many positions at once",
            "pretrainer",
            "ids",
            {**_full((400, 24)), "mask_positions": np.ones((400, 24), np.int32)},
            error="mask_positions: rows times the most predictions of a row must be at most 8192",
        ),
        Case(
            "more masks than fit",
            "pretrainer",
            "serving_default",
            {"text": _texts(["[MASK]" * 1000, "cat"])},
            shapes={"tokens": [2, MAX_LENGTH - 2, 5], "scores": [2, MAX_LENGTH - 2, 5]},
        ),
    ]


def _layer_cases(kind: str) -> list[Case]:
    shapes = {"first_output": [2, 3, 16], "mean_output": [2, 3, 16]}
    rows: list[tuple[str, Any, Any, str | None, dict[str, list[int]] | None]] = [
        ("all", ["cat", "dog"], [[0, 1, 2], [-1, -2, -3]], None, shapes),
        ("none at all", ["cat", ""], np.zeros((2, 0)), None, {name: [2, 0, 16] for name in shapes}),
        ("empty batch", [], np.zeros((0, 2)), None, {name: [0, 2, 16] for name in shapes}),
        ("beyond the last", ["cat"], [[3]], "layers must lie in -3..2", None),
        ("before the first", ["cat"], [[-4]], "layers must lie in -3..2", None),
        ("lowest", ["cat"], [[-(2**31)]], "layers must lie in -3..2", None),
        ("more than there are", ["cat"], [[0] * 4], "layers must have as many rows as text and at most 3 col", None),
        ("one row", ["cat", "dog"], [[1]], "layers must have as many rows as text", None),
        ("no row", ["cat"], np.zeros((0, 1)), "layers must have as many rows as text", None),
        ("rank 1", ["cat"], [1], "layers", None),
        ("scalar", ["cat"], 1, "layers", None),
        ("scalar text", "cat", [[1]], "text", None),
        ("text of rank 2", [["cat"]], [[1]], "text", None),
    ]
    return [
        Case(name, kind, "layers", {"text": _texts(text), "layers": np.array(layers, np.int32)}, error, shapes)
        for name, text, layers, error, shapes in rows
    ]


def cases() -> list[Case]:
    """Returns all requests."""
    embedded = {"pooled_output": [0, 16], "mean_output": [0, 16]}
    classified = {"logits": [0, 3], "probabilities": [0, 3]}
    return [
        *_text_cases("classifier", "serving_default", {"label": [0], "probabilities": [0, 3]}),
        *_text_cases("pretrainer", "serving_default", {"tokens": [0, 0, 5], "scores": [0, 0, 5]}),
        *_text_cases("pretrainer", "embed", embedded),
        *_text_cases("backbone", "serving_default", embedded),
        *_text_cases("regression", "serving_default", {"number": [0]}),
        *_text_cases("entities", "serving_default", _ENTITIES),
        *_text_cases("entities", "words", _WORDS),
        *_pair_cases(),
        *_question_cases(),
        *_choice_cases(),
        *_example_cases("classifier", "serve_examples", "examples", _LABEL),
        *_example_cases("classifier", "classify", "inputs", {"classes": [0, 3], "scores": [0, 3]}),
        *_example_cases("regression", "regress", "inputs", {"outputs": [0]}),
        *_example_cases("spans", "serve_examples", "examples", _ANSWER),
        *_example_cases("choices", "serve_examples", "examples", _CHOICE),
        *_id_cases("classifier", classified),
        *_id_cases("pair_classifier", classified),
        *_id_cases("pretrainer", {"mlm_logits": [0, 2, VOCABULARY_SIZE], "nsp_logits": [0, 2]}),
        *_id_cases("backbone", {**embedded, "sequence_output": [0, 4, 16]}),
        *_id_cases("regression", {"number": [0]}),
        *_id_cases("spans", {"start_logits": [0, 4], "end_logits": [0, 4]}),
        *_id_cases("entities", {"logits": [0, 4, 3]}),
        *_id_cases("choices", {"logits": [0]}),
        *_position_cases(),
        *_layer_cases("backbone"),
        *_layer_cases("pretrainer"),
        *_mask_cases(),
    ]


def _signature_route(folder: str) -> Callable[[Case], dict[str, np.ndarray]]:
    import tensorflow as tf

    signatures = tf.saved_model.load(folder).signatures

    def ask(case: Case) -> dict[str, np.ndarray]:
        tensors = {
            name: tf.constant(value, tf.string if value.dtype == object else None)
            for name, value in case.inputs.items()
        }
        return {name: tensor.numpy() for name, tensor in signatures[case.signature](**tensors).items()}

    return ask


def _session_route(folder: str) -> Callable[[Case], dict[str, np.ndarray]]:
    import tensorflow as tf

    session = tf.compat.v1.Session(graph=tf.Graph())
    with session.graph.as_default():
        definitions = tf.compat.v1.saved_model.load(session, ["serve"], folder).signature_def

    def tensor(info: Any) -> Any:
        return session.graph.get_tensor_by_name(info.name)._as_tf_output()

    def ask(case: Case) -> dict[str, np.ndarray]:
        definition = definitions[case.signature]
        feeds = {tensor(definition.inputs[name]): value for name, value in case.inputs.items()}
        names = sorted(definition.outputs)
        fetches = [tensor(definition.outputs[name]) for name in names]
        return dict(zip(names, session._call_tf_sessionrun(None, feeds, fetches, [], None), strict=True))

    return ask


def main(arguments: list[str]) -> None:
    """Runs all cases on both routes and prints the results."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    results: dict[str, Any] = {}
    for kind, folder in (argument.split("=", 1) for argument in arguments):
        for route, connect in (("signature", _signature_route), ("session", _session_route)):
            ask = connect(folder)
            for case in cases():
                if case.kind != kind:
                    continue
                key = f"{route}/{kind}/{case.signature}/{case.name}"
                try:
                    shapes = {name: list(value.shape) for name, value in ask(case).items()}
                    results[key] = {"shapes": shapes}
                except tf.errors.OpError as error:
                    results[key] = {"error": type(error).__name__, "message": error.message}
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1:])

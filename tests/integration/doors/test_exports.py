"""An exported model gives the answers of its preset, in plain TensorFlow and through the server."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (operations of the tokenizer)

import bert_tf
from tests.support import doors
from tests.support.doors import Answer, Case
from tests.support.serving.server_process import running

pytestmark = pytest.mark.slow

PresetOf = Callable[[Case], Path]
Ask = Callable[[str, str, dict[str, Any]], dict[str, Any]]
EXPORTED = {case.id: case for case in doors.EXPORTED}
PRETRAINED = "pretrained"


@pytest.fixture(scope="session")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The preset of a pre-trained model."""
    return doors.pretrained_preset(tmp_path_factory.mktemp("pretrained") / "preset", doors.POSITIONS)


@pytest.fixture
def exported(
    tmp_path_factory: pytest.TempPathFactory,
    tmp_path: Path,
    pretrained: Path,
    quick_verification: None,
) -> Path:
    """The folder with an export of each preset, which one test process writes on first use."""
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "exported_doors"
    root.mkdir(exist_ok=True)
    with (root / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / PRETRAINED / "1").exists():
            for name, case in EXPORTED.items():
                bert_tf.export_preset(doors.make_preset(case, tmp_path / name), root / name)
            bert_tf.export_preset(pretrained, root / PRETRAINED)
    return root


@pytest.fixture(scope="session")
def servers() -> Iterator[contextlib.ExitStack]:
    """Stops the server at the end."""
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture(scope="session")
def known() -> dict[str, Any]:
    """Keeps the server and the loaded models."""
    return {}


@pytest.fixture
def rest(exported: Path, servers: contextlib.ExitStack, known: dict[str, Any]) -> Ask:
    """Returns a function that asks the one server of all exports."""
    if "url" not in known:
        models = [str(exported / name) for name in (*EXPORTED, PRETRAINED)]
        known["url"] = servers.enter_context(running("--no_warmup", "--model", *models)).url

    def ask(model: str, signature: str, inputs: dict[str, Any]) -> dict[str, Any]:
        body = json.dumps({"signature_name": signature, "inputs": inputs}).encode()
        request = urllib.request.Request(f"{known['url']}/v1/models/{model}:predict", body)
        with urllib.request.urlopen(request) as response:
            outputs = json.load(response)["outputs"]
        if isinstance(outputs, dict):
            return outputs
        return {"number" if model.startswith("number") else "label": outputs}

    return ask


@pytest.fixture
def saved_model(exported: Path, known: dict[str, Any]) -> Ask:
    """Returns a function that asks a SavedModel in plain TensorFlow."""

    def ask(model: str, signature: str, inputs: dict[str, Any]) -> dict[str, Any]:
        if model not in known:
            known[model] = tf.saved_model.load(str(exported / model / "1"))
        tensors = {name: tf.constant(values, tf.string) for name, values in inputs.items()}
        outputs = known[model].signatures[signature](**tensors)
        return {name: python_values(values.numpy().tolist()) for name, values in outputs.items()}

    return ask


@pytest.fixture
def ask(request: pytest.FixtureRequest, door: str) -> Ask:
    """Returns the function of a door."""
    return request.getfixturevalue(door)


def python_values(value: Any) -> Any:
    if isinstance(value, list):
        return [python_values(each) for each in value]
    return value.decode() if isinstance(value, bytes) else value


@pytest.mark.parametrize("door", ["saved_model", "rest"])
@pytest.mark.parametrize("name", EXPORTED)
def test_exports_give_the_same_answers(
    name: str, door: str, ask: Ask, expected_of: Callable[[Case], list[Answer]]
) -> None:
    case = EXPORTED[name]
    examples = doors.examples_of(case)
    signature = "words" if case.head == "entities" else "serving_default"
    outputs = ask(name, signature, doors.rest_body(case, examples))
    found = doors.served_answers(case, outputs, len(examples))
    expected = expected_of(case)
    if case.head == "text" or case.head == "pair":
        assert sorted({answer.value for answer in expected}) != [expected[0].value]
    doors.check(dict(enumerate(found)), expected)


@pytest.mark.parametrize("door", ["saved_model", "rest"])
@pytest.mark.parametrize("name", [name for name, case in EXPORTED.items() if case.head == "entities"])
def test_exports_find_the_same_entities(name: str, door: str, ask: Ask, preset_of: PresetOf) -> None:
    texts = list(doors.TEXTS)
    rows = bert_tf.TaskPredictor(preset_of(EXPORTED[name])).predict(texts)
    outputs = ask(name, "serving_default", {"text": texts})
    names = {"entities": "entity", "types": "type", "starts": "start", "ends": "end", "scores": "score"}
    found = []
    for number in range(len(texts)):
        columns = zip(*(outputs[plural][number] for plural in names), strict=True)
        entities = [dict(zip(names.values(), values, strict=True)) for values in columns]
        found.append(doors.entity_answer([entity for entity in entities if entity["start"] >= 0]))
    doors.check(dict(enumerate(found)), [doors.entity_answer(row["entities"]) for row in rows])


@pytest.mark.parametrize("door", ["saved_model", "rest"])
def test_exports_fill_the_same_masks(door: str, ask: Ask, pretrained: Path) -> None:
    expected = bert_tf.BertMaskedLM.from_preset(pretrained).fill_mask(list(doors.MASKED), top=5)
    outputs = ask(PRETRAINED, "serving_default", {"text": list(doors.MASKED)})
    found = []
    for tokens, scores in zip(outputs["tokens"], outputs["scores"], strict=True):
        masks = [list(zip(*mask, strict=True)) for mask in zip(tokens, scores, strict=True) if mask[0][0]]
        found.append(doors.masks_of(masks))
    doors.check(dict(enumerate(found)), [doors.masks_of(masks) for masks in expected])


@pytest.mark.parametrize("door", ["saved_model", "rest"])
def test_exports_embed_alike(door: str, ask: Ask, pretrained: Path) -> None:
    texts = list(doors.TEXTS)
    outputs = ask(PRETRAINED, "embed", {"text": texts})
    np.testing.assert_allclose(outputs["mean_output"], bert_tf.embed(texts, pretrained), atol=1e-5)
    np.testing.assert_allclose(outputs["pooled_output"], bert_tf.embed(texts, pretrained, pooling="pooler"), atol=1e-5)

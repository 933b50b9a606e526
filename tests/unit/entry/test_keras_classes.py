from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator

from bert_tf.entry.keras_classes import REGISTERED
from tests.support.paths import REPOSITORY


def decorated() -> Iterator[tuple[str, str]]:
    """Yields module and name of each class and function that the sources register with Keras."""
    for path in sorted((REPOSITORY / "bert_tf").rglob("*.py")):
        module = ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            decorators = " ".join(map(ast.unparse, getattr(node, "decorator_list", ())))
            if "register_keras_serializable" in decorators or "register_model" in decorators:
                yield module, node.name


def test_all_registered_names_have_a_stand_in() -> None:
    listed = {name: module for module, names in REGISTERED.items() for name in names}
    homes = {name: module for module, name in decorated()}
    assert len(homes) > 30 and set(listed) == set(homes)
    for name, module in listed.items():
        assert f"{homes[name]}.".startswith(f"{module}."), f"{name} is registered by {homes[name]}, not by {module}"


def test_stand_ins_are_replaced_by_what_they_stand_for() -> None:
    """One process with Keras imported last, which also builds a layer and calls a function by their names."""
    program = """
import sys, bert_tf
assert "keras" not in sys.modules
import keras
from bert_tf.entry.keras_classes import REGISTERED, StandIn
assert not [name for name in sys.modules if name.startswith(("bert_tf.layers", "bert_tf.models"))]
assert not [finder for finder in sys.meta_path if type(finder).__module__.startswith("bert_tf")]
found = keras.saving.get_custom_objects()
layer = {"class_name": "WeightedSum", "registered_name": "bert_tf>WeightedSum", "config": {"name": "sum"}}
function = {"class_name": "function", "config": "bert_tf>gelu_approximate", "module": "builtins"}
activation = keras.saving.deserialize_keras_object(function)
assert keras.saving.serialize_keras_object(activation)["config"] == "bert_tf>gelu_approximate"
assert abs(float(activation(1.0)) - 0.841) < 1e-3
assert type(keras.saving.deserialize_keras_object(layer)).__module__ == "bert_tf.layers.weighted_sum"
for module, names in REGISTERED.items():
    for name in names:
        stand_in = found[f"bert_tf>{name}"]
        real = stand_in.resolved() if isinstance(stand_in, StandIn) else stand_in
        assert found[f"bert_tf>{name}"] is real and keras.saving.get_registered_name(real) == f"bert_tf>{name}"
        assert real.__name__ == name, real
print("done")
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert done.stdout.strip() == "done", done.stderr


def test_looking_for_keras_does_not_import_it() -> None:
    program = """
import importlib.util, sys, bert_tf
assert importlib.util.find_spec("keras") and "keras" not in sys.modules
import keras
assert "bert_tf>BertBackbone" in keras.saving.get_custom_objects()
print("done")
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert done.stdout.strip() == "done", done.stderr

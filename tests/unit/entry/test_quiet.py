"""Programs import TensorFlow without its startup messages."""

from __future__ import annotations

import ast
from types import SimpleNamespace

import pytest

from bert_tf.entry import quiet
from tests.support.paths import REPOSITORY

EXPORT = REPOSITORY / "bert_tf" / "export"


@pytest.mark.parametrize("name", ["conformance/__main__", "descriptors", "verify/__main__"])
def test_programs_import_tensorflow_quietly(name: str) -> None:
    body = ast.parse((EXPORT / f"{name}.py").read_text(encoding="utf-8")).body
    imports = [node for node in body[1:] if getattr(node, "module", "") != "__future__"]
    if isinstance(imports[0], ast.If):
        assert "__main__" in ast.unparse(imports[0].test)
        imports = imports[0].body
    assert [ast.unparse(node) for node in imports[:2]] == [
        "from bert_tf.entry.quiet import import_tensorflow",
        "import_tensorflow()",
    ]


@pytest.mark.parametrize(
    ("cuda", "found", "hidden", "warned"),
    [(True, [], None, True), (True, ["GPU:0"], None, False), (True, [], "-1", False), (False, [], None, False)],
    ids=["unused", "used", "hidden", "without CUDA"],
)
def test_a_gpu_that_tensorflow_does_not_find_is_named(
    cuda: bool,
    found: list[str],
    hidden: str | None,
    warned: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if hidden:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    tensorflow = SimpleNamespace(
        test=SimpleNamespace(is_built_with_cuda=lambda: cuda),
        config=SimpleNamespace(list_physical_devices=lambda _: found),
    )
    quiet.warn_of_unused_gpu(tensorflow)
    assert ("TensorFlow finds none" in capsys.readouterr().err) == warned


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_is_not_collected_within_the_block_and_its_objects_never(
    enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    names = ("disable", "freeze", "enable")
    recorder = {name: lambda name=name: calls.append(name) for name in names}
    monkeypatch.setattr(quiet, "gc", SimpleNamespace(isenabled=lambda: enabled, **recorder))
    with pytest.raises(KeyError), quiet.without_collecting():
        assert calls == ["disable"]
        raise KeyError
    assert calls == ["disable", "freeze"] + ["enable"] * enabled

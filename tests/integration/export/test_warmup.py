"""Warm-up requests of a version."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.commands.inspect import describe
from bert_tf.export import saved_model
from bert_tf.export.kinds.base import SHORTEST_SEQUENCE, Signatures
from bert_tf.export.metadata import WARMUP, signature_shapes
from bert_tf.export.saved_model import export_preset
from bert_tf.export.signatures import signatures_of
from bert_tf.export.verify.sample_requests import warmup_sample
from bert_tf.export.warmup import write_warmup
from bert_tf.models import load_preset


@pytest.mark.parametrize("kind", ["classifier", "pair_classifier", "pretrainer", "choices"])
def test_sample_request_has_one_row_with_the_fewest_tokens(kind: str, presets: dict[str, Path]) -> None:
    signatures = signatures_of(load_preset(presets[kind]))
    sample = warmup_sample(signatures)
    assert sample["token_ids"].shape == (1, SHORTEST_SEQUENCE)
    names = [str(spec.name) for spec in signatures.text_inputs]
    assert {len(sample[name]) for name in (*names, "examples", "inputs")} == {1}
    columns = [sample[name].reshape(1, -1)[:, 0] for name in names]
    encoded = signatures.encode(*map(tf.constant, columns), keep_mask_token=True)["token_ids"]
    # The remaining positions are empty.
    assert SHORTEST_SEQUENCE - 2 <= encoded.shape[1] <= SHORTEST_SEQUENCE
    assert (kind == "pretrainer") == (b"[MASK]" in sample[names[0]].reshape(-1)[0])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: None, r"warm-up request \d, signature `ids`: InvalidArgumentError: .*token_ids must lie in"),
        (lambda path: path.write_bytes(path.read_bytes()[:-3]), "requests: unreadable after [1-9]"),
    ],
    ids=["a request that fails", "half a file"],
)
def test_a_version_that_fails_a_request_is_not_exported(
    spoil: Any,
    message: str,
    presets: dict[str, Path],
    tmp_path: Path,
    quick_verification: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def spoiled_sample(signatures: Signatures) -> dict[str, np.ndarray]:
        sample = warmup_sample(signatures)
        return sample | {"token_ids": sample["token_ids"] - (0 if "unreadable" in message else 1000)}

    def spoiled(path: Path, model: str, requests: Any) -> None:
        write_warmup(path, model, requests)
        spoil(path)

    monkeypatch.setattr(saved_model, "warmup_sample", spoiled_sample)
    monkeypatch.setattr(saved_model, "write_warmup", spoiled)
    with pytest.raises(RuntimeError, match=message):
        export_preset(presets["backbone"], tmp_path / "m")
    assert list((tmp_path / "m").iterdir()) == []


def test_inspect_names_damaged_requests(exported: Callable[[str], Path], tmp_path: Path) -> None:
    folder = tmp_path / "1"
    shutil.copytree(exported("classifier"), folder)
    found = describe(folder)
    assert found["warm-up requests"] == len(signature_shapes(folder))
    assert found["operations beyond the model"] == [] and "2.13" in found["TF Serving"]
    content = (folder / WARMUP).read_bytes()
    (folder / WARMUP).write_bytes(content[:-1])
    assert "the file ends within the record" in describe(folder)["warm-up requests"]

"""Tests conversions from and to Hugging Face: recorded outputs of transformers, and bit-identical round trips."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_tf.conversion import Options
from bert_tf.conversion.formats.huggingface import checkpoint as form
from bert_tf.conversion.verify import programs
from bert_tf.conversion.verify.probe_inputs import fixed_inputs
from bert_tf.text.tokenizer import BertTokenizer
from bert_tf.text.vocabulary import load_vocabulary
from tests.support.conversion.huggingface_samples import (
    KINDS,
    RELEASED_LAYOUTS,
    opened,
    recorded,
)

TOLERANCE = 1e-5
PYTHON = os.environ.get("BERT_TF_PEER_HUGGINGFACE")
PLAIN_TEXTS = ["a bc, abba!", "Ünïcode ab", "ab\tcd  x.", "", "ABC 中a"]


def assert_as_recorded(outputs: Any, expected: Any, mask: np.ndarray, deep: bool = False) -> None:
    assert set(expected) <= set(outputs)
    for name, wanted in expected.items():
        found = outputs[name]
        assert found.shape == wanted.shape
        if wanted.ndim == 3 and wanted.shape[:2] == mask.shape:
            found, wanted = found[mask], wanted[mask]
        # Rounding grows with depth: the 22 and 28 layers of the released ones are compared with the largest output.
        largest = float(np.abs(wanted).max()) if deep else 1.0
        np.testing.assert_allclose(found, wanted, rtol=0, atol=TOLERANCE * largest, err_msg=name)


def outputs_of(kind: str) -> dict[str, np.ndarray]:
    with np.load(recorded(kind) / "outputs.npz") as file:
        return {name: file[name] for name in file.files}


# One process for all directories: importing torch takes longer than everything else.
PROGRAM = """
import importlib.util, json, pathlib, sys
import numpy, torch, transformers

peer, folder, kinds, texts = sys.argv[1], pathlib.Path(sys.argv[2]), json.loads(sys.argv[3]), json.loads(sys.argv[4])
spec = importlib.util.spec_from_file_location("peer", peer)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
found = {}
for kind in kinds:
    path = folder / kind
    with torch.no_grad(), numpy.load(path / "inputs.npz") as inputs:
        numpy.savez(path / "answers.npz", **module.outputs(module.opened(path), inputs))
    _, loading = transformers.AutoModel.from_pretrained(path, output_loading_info=True)
    ids = transformers.AutoTokenizer.from_pretrained(path)(texts)["input_ids"]
    found[kind] = {"ids": ids, "missing": sorted(loading["missing_keys"])}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def opened_by_transformers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    if PYTHON is None:
        pytest.skip("BERT_TF_PEER_HUGGINGFACE names no interpreter with transformers")
    folder = tmp_path_factory.mktemp("written")
    for kind in KINDS:
        (folder / kind).mkdir()
        source = opened(recorded(kind))
        form.write(source, folder / kind, Options(dtype="float32", shard_bytes=9000))
        np.savez(folder / kind / "inputs.npz", **fixed_inputs(source.config))  # type: ignore[arg-type]
    peer = Path(programs.__file__).parent / "huggingface.py"
    command = [PYTHON, "-c", PROGRAM, str(peer), str(folder), json.dumps(KINDS), json.dumps(PLAIN_TEXTS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("kind", KINDS)
def test_transformers_loads_a_written_checkpoint(
    kind: str, opened_by_transformers: tuple[Path, dict[str, Any]]
) -> None:
    folder, found = opened_by_transformers
    with np.load(folder / kind / "inputs.npz") as inputs, np.load(folder / kind / "answers.npz") as answered:
        assert_as_recorded(dict(answered), outputs_of(kind), inputs["padding_mask"] != 0, kind in RELEASED_LAYOUTS)
    ours = BertTokenizer(load_vocabulary(folder / kind / "vocab.txt"), lowercase=kind != "token_classification")
    ids = ours.tokenize(PLAIN_TEXTS)
    rows = np.split(ids.values, ids.row_splits[1:-1])
    special = ours.vocabulary
    assert found[kind]["ids"] == [[special.cls_id, *row.tolist(), special.sep_id] for row in rows]
    config = opened(recorded(kind)).config
    assert found[kind]["missing"] == (
        [] if config.pooler or not config.heads_need_pooler else ["pooler.dense.bias", "pooler.dense.weight"]
    )

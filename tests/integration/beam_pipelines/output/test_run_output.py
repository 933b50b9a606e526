"""One run at a time writes to an output directory; workers of earlier runs write nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_pipelines import build_vocabulary, create_pretraining_data
from beam_pipelines.errors import PipelineError
from bert_tf.config import ConfigError
from bert_tf.config.files import only_writer
from tests.support.beam_pipelines.runner_samples import data_flags

PIPELINES = {
    "data": (create_pretraining_data, ["--max_seq_length=32"], ""),
    "vocab": (build_vocabulary, ["--vocabulary_size=90"], ".counts"),
}


def command(name: str, home: Path, output: Path) -> tuple[object, list[str]]:
    """Returns the module of a pipeline and its command line."""
    module, flags, _ = PIPELINES[name]
    own = [flag for flag in data_flags(home, 5) if name == "data" or not flag.startswith(("--vocab", "--max_seq"))]
    return module, [*own, *flags, f"--output={output}"]


@pytest.mark.parametrize("name", PIPELINES)
def test_a_second_run_is_refused_and_deletes_nothing(tmp_path: Path, name: str) -> None:
    module, argv = command(name, tmp_path, tmp_path / "out")
    locked = tmp_path / f"out{PIPELINES[name][2]}"
    running = [locked / ".staging-0/x.chunks", locked / ".x.tmp"]
    running[0].parent.mkdir(parents=True)
    for path in running:
        path.touch()
    with only_writer(locked, "testing"), pytest.raises(PipelineError, match=f"another process is .* {locked}"):
        module.run(argv)
    assert all(path.exists() for path in running)


@pytest.mark.parametrize("name", PIPELINES)
def test_unwritable_output_is_detected_before_the_corpus_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "file").touch()
    module, argv = command(name, tmp_path, tmp_path / "file" / "out")

    def refuse(*_: object) -> None:
        raise AssertionError("the corpus is read")

    monkeypatch.setattr(module, "_run_pipeline", refuse)
    with pytest.raises(ConfigError, match=r"--output: \S+file/out\S* cannot be written"):
        module.run(argv)

"""`python -m benchmarks.entered`: the files of bert_tf that a call enters, and the lines of its packages.

A call enters a file if it runs one of its functions; what runs only on import does not count.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import bert_tf

_ROOT = Path(bert_tf.__file__).parent
_TEXTS, _LABELS = ["a good film", "a dull film", "good story", "dull story"] * 4, ["good", "bad"] * 8


def entered_files(call: Callable[[], Any]) -> set[str]:
    """Returns the files of bert_tf whose functions a call runs, in any thread."""
    found: set[str] = set()

    def profile(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        # Modules and the bodies of classes run on import.
        if event == "call" and code.co_name != "<module>" and "__qualname__" not in frame.f_locals:
            found.add(code.co_filename)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return {Path(name).relative_to(_ROOT).as_posix() for name in found if Path(name).is_relative_to(_ROOT)}


def calls(folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yields the calls by name, on a preset of a few words."""
    from bert_tf.cli import main
    from bert_tf.text.vocabulary import SPECIAL_TOKENS

    vocabulary = bert_tf.Vocabulary((*SPECIAL_TOKENS, "a", "good", "dull", "film", "story"))
    backbone = bert_tf.BertBackbone(
        vocabulary_size=len(vocabulary), hidden_dim=16, num_layers=2, num_heads=2, intermediate_dim=32
    )
    backbone.save_to_preset(folder / "preset", vocabulary)
    rows = [f"{text}\t{label}" for text, label in zip(_TEXTS, _LABELS, strict=True)]
    (folder / "train.tsv").write_text("\n".join(["text\tlabel", *rows, ""]))
    model = bert_tf.BertTextClassifier.from_preset(folder / "preset", num_classes=2)
    yield "fit(texts, labels)", lambda: model.fit(_TEXTS, _LABELS, verbose=0)
    yield "predict_labels(texts)", lambda: model.predict_labels(_TEXTS)
    data = [f"--{name}={folder / 'train.tsv'}" for name in ("train", "dev")]
    finetune = ["finetune", "classify", f"--preset={folder / 'preset'}", *data, f"--output={folder / 'run'}"]
    yield "bert-tf finetune classify", lambda: main([*finetune, "--set", "training.epochs=1"])


def main() -> int:
    """Prints the counts."""
    with tempfile.TemporaryDirectory() as folder:
        for name, call in calls(Path(folder)):
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                files = entered_files(call)
            print(f"{len(files):4} files  {name}")
    lines: Counter[str] = Counter()
    for path in _ROOT.rglob("*.py"):
        package = path.relative_to(_ROOT).parts[0]
        lines[package.removesuffix(".py")] += len(path.read_text(encoding="utf-8").splitlines())
    for name, count in sorted(lines.items(), key=lambda item: -item[1]):
        print(f"{count:6} lines  bert_tf/{name}")
    print(f"{lines.total():6} lines  bert_tf")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Output of the demo: filled masks, predictions of the exported classifier, and further commands."""

from __future__ import annotations

import random
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bert_tf.commands.demo.steps import Steps

_SENTENCES = 4
_START_UP_SECONDS = 120


def show_filled_masks(output: Path, steps: Steps) -> None:
    """Masks a word in some held-out sentences and prints the predictions of the pre-trained model."""
    from bert_tf.export.inference import Predictor

    chooser = random.Random(0)
    questions, answers = [], []
    for _, passage in _sample(output, _SENTENCES):
        sentence = re.split(r"(?<=[.!?]) ", passage)[0]
        words = list(re.finditer(r"\b[a-z]{4,}\b", sentence)) or list(re.finditer(r"\w+", sentence))
        word = chooser.choice(words)
        questions.append(f"{sentence[: word.start()]}[MASK]{sentence[word.end() :]}")
        answers.append(word.group())
    predict = Predictor(output / "pretraining")
    for question, answer, row in zip(questions, answers, predict(questions), strict=True):
        guesses = ", ".join(f"{guess['token']} {guess['score']:.0%}" for mask in row["masks"] for guess in mask[:3])
        steps.say(f"      {question}\n        -> {guesses}   (the text has: {answer})")


def export_and_ask(output: Path, steps: Steps) -> Path:
    """Exports the classifier, serves it in a new process, and requests predictions for held-out passages.

    Args:
        output: output directory of the demo.
        steps: progress reporter.

    Returns:
        The directory of the exported version.
    """
    from bert_tf.client import predict
    from bert_tf.export.saved_model import export_preset

    model = output / "saved_models" / "classifier"
    version = export_preset(output / "classifier" / "preset", model)
    rows = _sample(output, _SENTENCES)
    with _server(model) as url:
        answers = predict(url, [text for _, text in rows])
    for (label, text), answer in zip(rows, answers, strict=True):
        steps.say(
            f"      {text[:90]!r}\n        -> {answer['label']} {max(answer['probabilities']):.0%}   (label: {label})"
        )
    return version


def say_next_commands(output: Path, steps: Steps) -> None:
    """Prints commands to run after the demo."""
    here, program = shlex.quote(str(output)), _as_typed("bert-tf")
    commands = {
        f"{_as_typed('tensorboard')} --logdir {here}": "training curves of all runs",
        f"{program} serve --model {here}/saved_models/classifier": "serve the classifier at localhost:8501",
        f"{program} inspect {here}/data": "statistics of the examples",
        f"{program} demo --input 'your/text/*.txt' --output runs/mine": "the demo on your own text",
    }
    from bert_tf.reports.tasks.sweep import RESULTS_PAGE
    from bert_tf.training.output import REPORT_NAME

    pages = {
        output / "data" / REPORT_NAME: "pre-training examples",
        output / "pretraining" / REPORT_NAME: "curves and filled masks of pre-training",
        output / "classifier" / RESULTS_PAGE: "classifiers, with links to their predictions",
    }
    lines = [f"  {page.absolute().as_uri()}  {text}" for page, text in pages.items()]
    steps.say("\nOpen in a browser:\n" + "\n".join(lines))
    width = max(map(len, commands))
    steps.say("\nTry next:\n" + "\n".join(f"  {command:<{width}}  {text}" for command, text in commands.items()))


def _as_typed(program: str) -> str:
    """Returns the command line for `program` of this environment: its name if on the PATH, otherwise its path."""
    path = Path(sys.executable).parent / program
    if shutil.which(program) == str(path):
        return program
    return shlex.quote(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))


def _sample(output: Path, count: int) -> list[tuple[str, str]]:
    lines = (output / "passages" / "dev.tsv").read_text(encoding="utf-8").splitlines()[1:]
    rows = [tuple(line.split("\t")) for line in random.Random(0).sample(lines, min(count, len(lines)))]
    return [(label, text) for label, text in rows]


@contextmanager
def _server(model: Path) -> Iterator[str]:
    """Runs `bert-tf serve` in a separate process; yields the model's URL once it answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "bert_tf", "serve", "--model", str(model), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    url = f"http://127.0.0.1:{port}/v1/models/{model.name}"
    try:
        deadline = time.monotonic() + _START_UP_SECONDS
        while not _answers(url):
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                raise RuntimeError(f"the server did not start: {process.communicate()[1][-2000:]}")
            time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.communicate()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False

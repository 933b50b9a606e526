"""Pre-training examples per second and per CPU second, compared with the Model Garden's create_pretraining_data.

Each measurement runs whole processes over two sizes of text. The rate is the difference of the examples divided by the
difference of the times, so start-up is not counted. The peer reads one sentence per line; bert_tf reads the same text,
and paragraphs that it splits itself. The peer runs in one process and holds everything in memory, so its inputs are
smaller; its rate does not depend on the size.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import statistics
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import measure, processes, texts

# Predictions per example, by example length, as in the two phases of the paper.
PREDICTIONS = {128: 20, 512: 77}
DUPE_FACTOR = 5
PEER = "tf-models-official"
_TITLE = "Pre-training examples"
_RATES = ("examples_per_second", "examples_per_cpu_second")
_MODULE = "official.nlp.data.create_pretraining_data"
# TFRecord: the length and its checksum precede the data, the checksum of the data follows.
_RECORD_HEADER = struct.Struct("<QI")
_RECORD_FOOTER = 4


@dataclass(frozen=True)
class Contestant:
    """A program that creates examples.

    Args:
        name: name in the table.
        command: returns the command line for input files, an output path and a length.
        sizes: sizes of the smaller and the larger input, megabytes.
        inputs: files of both inputs.
        repetitions: runs of each size.
        count: returns the number of examples from the cost of a run and its output path.
        environment: additional environment variables.
    """

    name: str
    command: Callable[[Sequence[Path], Path, int], list[str]]
    sizes: tuple[float, float]
    inputs: tuple[list[Path], list[Path]]
    repetitions: int
    count: Callable[[processes.Cost, Path], int]
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)


def bert_tf_command(inputs: Sequence[Path], output: Path, length: int, vocabulary: Path, language: str) -> list[str]:
    """Returns the command line of bert_tf: static records, all documents for training, like the peer."""
    flags = {
        "input": ",".join(map(str, inputs)),
        "language": language,
        "vocabulary": vocabulary,
        "output": output,
        "masking": "static",
        "dupe_factor": DUPE_FACTOR,
        "max_seq_length": length,
        "max_predictions_per_seq": PREDICTIONS[length],
        "validation_fraction": 0,
        # The default for inputs of this size; set so that both sizes run the same way.
        "direct_running_mode": "multi_processing",
    }
    program = [sys.executable, "-m", "beam_pipelines.create_pretraining_data"]
    return [*program, *(f"--{name}={value}" for name, value in flags.items())]


def peer_command(inputs: Sequence[Path], output: Path, length: int, vocabulary: Path, python: Path) -> list[str]:
    """Returns the command line of the peer."""
    flags = {
        "input_file": ",".join(map(str, inputs)),
        "output_file": output,
        "vocab_file": vocabulary,
        "do_lower_case": True,
        "dupe_factor": DUPE_FACTOR,
        "max_seq_length": length,
        "max_predictions_per_seq": PREDICTIONS[length],
    }
    return [str(python), "-m", _MODULE, *(f"--{name}={value}" for name, value in flags.items())]


def records_in(path: Path) -> int:
    """Returns the number of records in a TFRecord file."""
    records = 0
    with path.open("rb") as file:
        while header := file.read(_RECORD_HEADER.size):
            file.seek(_RECORD_HEADER.unpack(header)[0] + _RECORD_FOOTER, 1)
            records += 1
    return records


def _examples_of_summary(cost: processes.Cost, _: Path) -> int:
    return int(json.loads(cost.stdout.splitlines()[-1])["examples"])


def _examples_of_file(_: processes.Cost, path: Path) -> int:
    return records_in(path)


def our_contestants(sample: texts.Sample, vocabulary: Path, megabytes: float, repetitions: int) -> list[Contestant]:
    """Returns bert_tf twice: with sentences as input, like the peer, and with paragraphs.

    Args:
        sample: text of the corpus.
        vocabulary: path of a vocab.txt.
        megabytes: size of the larger input; the smaller one is a quarter of it.
        repetitions: runs of each size.
    """
    contestants = []
    for name, written, read in (("one sentence a line", "en", "none"), ("splitting paragraphs", "none", "en")):

        def command(inputs: Sequence[Path], output: Path, length: int, language: str = read) -> list[str]:
            return bert_tf_command(inputs, output, length, vocabulary, language)

        sizes = (megabytes / 4, megabytes)
        inputs = (sample.write(sizes[0], written), sample.write(sizes[1], written))
        contestants.append(Contestant(f"bert_tf, {name}", command, sizes, inputs, repetitions, _examples_of_summary))
    return contestants


def peer_contestant(
    sample: texts.Sample, vocabulary: Path, python: Path, megabytes: float, repetitions: int
) -> Contestant:
    """Returns the peer.

    Args:
        sample: text of the corpus.
        vocabulary: path of a vocab.txt.
        python: Python interpreter of the peer's environment.
        megabytes: size of the larger input; the smaller one is a quarter of it.
        repetitions: runs of each size.
    """

    def command(inputs: Sequence[Path], output: Path, length: int) -> list[str]:
        return peer_command(inputs, output, length, vocabulary, python)

    sizes = (megabytes / 4, megabytes)
    inputs = (sample.write(sizes[0], "en"), sample.write(sizes[1], "en"))
    environment = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
    return Contestant(PEER, command, sizes, inputs, repetitions, _examples_of_file, environment)


def measure_examples(runners: Sequence[Contestant], work: Path, lengths: Sequence[int]) -> list[dict[str, Any]]:
    """Runs all contestants in turn, each with its own number of repetitions.

    Args:
        runners: contestants with the same vocabulary and settings.
        work: folder for outputs, which are deleted.
        lengths: example lengths, keys of `PREDICTIONS`.

    Returns:
        A row for each contestant and length: medians, differences and rates.
    """
    rows = []
    for length in lengths:
        runs: dict[tuple[str, int], list[tuple[processes.Cost, int]]] = {}
        for repetition in range(max(runner.repetitions for runner in runners)):
            for runner in runners:
                if repetition < runner.repetitions:
                    for size in (0, 1):
                        runs.setdefault((runner.name, size), []).append(_run(runner, size, length, work))
        rows += [_row(runner, length, runs[runner.name, 0], runs[runner.name, 1]) for runner in runners]
    return rows


def _run(runner: Contestant, size: int, length: int, work: Path) -> tuple[processes.Cost, int]:
    output = work / "examples"
    cost = processes.run(runner.command(runner.inputs[size], output, length), work, runner.environment)
    examples = runner.count(cost, output)
    if output.is_dir():
        shutil.rmtree(output)
    else:
        output.unlink()
    return cost, examples


def _row(
    runner: Contestant,
    length: int,
    small: Sequence[tuple[processes.Cost, int]],
    large: Sequence[tuple[processes.Cost, int]],
) -> dict[str, Any]:
    seconds, cpu_seconds = (
        [statistics.median(getattr(cost, name) for cost, _ in runs) for runs in (small, large)]
        for name in ("seconds", "cpu_seconds")
    )
    examples = [runs[0][1] for runs in (small, large)]
    count = examples[1] - examples[0]
    return {
        "name": runner.name,
        "max_seq_length": length,
        "repetitions": runner.repetitions,
        "megabytes": runner.sizes,
        "examples": examples,
        "seconds": [round(value, 3) for value in seconds],
        "cpu_seconds": [round(value, 3) for value in cpu_seconds],
        "all_seconds": [[round(cost.seconds, 3) for cost, _ in runs] for runs in (small, large)],
        "examples_per_second": _rate(count, seconds),
        "examples_per_cpu_second": _rate(count, cpu_seconds),
    }


def _rate(count: int, seconds: Sequence[float]) -> float | None:
    """Returns the rate; None if the inputs are too small to measure it."""
    return count / (seconds[1] - seconds[0]) if seconds[1] > seconds[0] else None


def show(rows: Sequence[dict[str, Any]], output: Path) -> None:
    """Prints the table, with ratios to the peer if it was measured, and writes the JSON."""
    measure.heading(f"{_TITLE}: static records, dupe factor {DUPE_FACTOR}, start-up not counted")
    print(f"  {'':<32}{'length':>7}{'examples/s':>12}{'per CPU s':>11}   whole run of the larger input")
    peers = {row["max_seq_length"]: row for row in rows if row["name"] == PEER}
    for row in rows:
        rates = [row[key] for key in _RATES]
        print(
            f"  {row['name']:<32}{row['max_seq_length']:>7}{_shown(rates[0]):>12}{_shown(rates[1]):>11}   "
            f"{row['megabytes'][1]:g} MB, {row['examples'][1]} examples: {row['seconds'][1]:.1f} s, "
            f"{row['cpu_seconds'][1]:.1f} CPU s (median of {row['repetitions']})"
        )
        peer = peers.get(row["max_seq_length"], row)
        if row is not peer and None not in rates:
            row["times_peer"] = [rate / peer[key] for rate, key in zip(rates, _RATES, strict=True) if peer[key]]
            print(f"  {'':<39}" + "".join(f"{times:>11.1f}x" for times in row["times_peer"]) + f"  of {PEER}")
    measure.save(_TITLE, {"dupe_factor": DUPE_FACTOR, "results": list(rows)}, output)


def _shown(rate: float | None) -> str:
    return "too small" if rate is None else f"{rate:,.0f}"

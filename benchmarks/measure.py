"""Measures medians of interleaved repetitions, and reports them as a table and JSON."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

REPETITIONS = 5


def parser(description: str | None, output: str = "runs/benchmarks") -> argparse.ArgumentParser:
    """Returns a parser with the option `--output`.

    Args:
        description: docstring of the benchmark.
        output: default output directory.
    """
    parser = argparse.ArgumentParser(
        description=description, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path(output), help="output directory; default: %(default)s")
    return parser


def rates(
    contestants: Mapping[str, Callable[[], Any]], units: float, repetitions: int = REPETITIONS
) -> dict[str, float]:
    """Returns the rate of every contestant in units per second: medians over interleaved repetitions after a warm-up.

    Args:
        contestants: functions to run, by name. Interleaving spreads variations of the machine over all of them.
        units: units of work per call.
        repetitions: timed calls per contestant.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for run in contestants.values():
        run()
    for _ in range(repetitions):
        for name, run in contestants.items():
            started = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - started)
    return {name: units / statistics.median(times) for name, times in seconds.items()}


def report(
    title: str,
    unit: str,
    results: Mapping[str, float],
    reference: str,
    output: Path,
    repetitions: int = REPETITIONS,
) -> None:
    """Prints a table with the ratios to `reference`, and writes it as JSON with the machine and the date.

    Args:
        title: title of the table.
        unit: unit of the results.
        results: rates by name.
        reference: name of the rate to compare with.
        output: output directory of the JSON.
        repetitions: repetitions of each measurement.
    """
    heading(f"{title} (medians of {repetitions})")
    for name, rate in results.items():
        print(f"  {name:<44} {rate:>14,.0f} {unit}   {rate / results[reference]:>6.2f} x {reference}")
    fields = {"unit": unit, "repetitions": repetitions, "results": dict(results), "reference": reference}
    save(title, fields, output)


def heading(title: str) -> None:
    """Prints a title with the machine and the date."""
    print(f"\n{title}; {processor()}, {os.cpu_count()} cores, {datetime.date.today()}", flush=True)


def save(title: str, fields: Mapping[str, Any], output: Path) -> None:
    """Writes `fields` with the machine and the date as JSON into `output`; the file is named after `title`."""
    output.mkdir(parents=True, exist_ok=True)
    record = {
        "title": title,
        "date": str(datetime.date.today()),
        "processor": processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **fields,
    }
    path = output / f"{title.lower().replace(' ', '_')}.json"
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def processor() -> str:
    """Returns the name of the processor model."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()

"""Medians of interleaved repetitions, and the table and JSON that come of them."""

from __future__ import annotations

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


def rates(
    contestants: Mapping[str, Callable[[], Any]], units: float, repetitions: int = REPETITIONS
) -> dict[str, float]:
    """Returns units a second of every contestant: medians over interleaved repetitions, after one warm-up each.

    Args:
        contestants: what to run, by name. Interleaving them spreads the machine's moods over all.
        units: units of work in one call.
        repetitions: timed calls of each.
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
    """Prints a table with the ratio to `reference`, and writes it as JSON with machine and date."""
    heading(f"{title} (medians of {repetitions})")
    for name, rate in results.items():
        print(f"  {name:<44} {rate:>14,.0f} {unit}   {rate / results[reference]:>6.2f} x {reference}")
    fields = {"unit": unit, "repetitions": repetitions, "results": dict(results), "reference": reference}
    save(title, fields, output)


def heading(title: str) -> None:
    """Prints a title, with the machine and the day."""
    print(f"\n{title}; {processor()}, {os.cpu_count()} cores, {datetime.date.today()}", flush=True)


def save(title: str, fields: Mapping[str, Any], output: Path) -> None:
    """Writes `fields` as JSON into the directory `output`, with machine and date, under a name made of `title`."""
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
    """Returns the model of the processor."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()

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


def rates(contestants: Mapping[str, Callable[[], Any]], units: float) -> dict[str, float]:
    """Returns units a second of every contestant: medians over interleaved repetitions, after one warm-up each.

    Args:
        contestants: what to run, by name. Interleaving them spreads the machine's moods over all.
        units: units of work in one call.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for run in contestants.values():
        run()
    for _ in range(REPETITIONS):
        for name, run in contestants.items():
            started = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - started)
    return {name: units / statistics.median(times) for name, times in seconds.items()}


def report(title: str, unit: str, results: Mapping[str, float], reference: str, output: Path) -> None:
    """Prints a table with the ratio to `reference`, and writes it as JSON with machine and date."""
    print(f"\n{title} (medians of {REPETITIONS}, {_processor()}, {os.cpu_count()} cores, {datetime.date.today()})")
    for name, rate in results.items():
        print(f"  {name:<44} {rate:>14,.0f} {unit}   {rate / results[reference]:>6.2f} x {reference}")
    output.mkdir(parents=True, exist_ok=True)
    record = {
        "title": title,
        "unit": unit,
        "date": str(datetime.date.today()),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "repetitions": REPETITIONS,
        "results": dict(results),
        "reference": reference,
    }
    path = output / f"{title.lower().replace(' ', '_')}.json"
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()

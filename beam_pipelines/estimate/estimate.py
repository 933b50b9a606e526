"""Estimates the cost of a run from a sample of its input, processed by the steps of the run.

Measurements of the sample are scaled by bytes on disk, separately for each input. The estimate ignores duplicates that
are far apart and other load on the machine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from apache_beam.options.pipeline_options import (
    DirectOptions,
    FlinkRunnerOptions,
    PipelineOptions,
    PortableOptions,
    StandardOptions,
    WorkerOptions,
)

from beam_pipelines.estimate.sample import SAMPLE_BYTES, read_sample
from beam_pipelines.estimate.sample_run import BUILD, STEPS, Measured, SampleRun
from beam_pipelines.run_plan import RunPlan
from beam_pipelines.runners.job_servers import PORTABLE_RUNNERS
from beam_pipelines.runners.select import environment
from beam_pipelines.sources.corpus import FORMATS, Corpus
from beam_pipelines.sources.documents import ReadSettings
from beam_pipelines.transforms.tokenize import Buckets
from bert_tf.entry.amounts import available_cores, in_time, plural
from bert_tf.reports.text import in_bytes

# More files than this occupy all workers evenly, so their parts are not computed.
_MOST_FILES = 1000
# Time to build the pipeline and to finish the directory.
_DRIVER_SECONDS = 2.0
# CPU time of workers on one machine relative to a single process: they share caches and memory (1.2 to 1.5 measured).
_TOGETHER = 1.25
# Relative half-width of the interval: of the time, for the error of the model; of counts, if the sample is a single
# unit and has no variance.
_MODEL_SPREAD, _UNKNOWN_SPREAD = 0.2, 0.2
# Memory, fitted to runs on 16 and 41 million tokens. Worker: bytes per token of the bucket while a shard is built (26
# for one pass, 31 for five), and working memory on top of the loaded libraries. Driver: working memory, and copies of
# the near-duplicate rows that FnApiRunner gathers in the driver or in the only process.
_BUCKET_BYTES, _PASS_BYTES, _WORK_BYTES = 25.0, 1.2, 105 << 20
_DRIVING_BYTES, _GATHERED_COPIES, _COPIES_IN_PROCESS = 50 << 20, 5.5, 1.5
# Fallbacks if the system does not report memory: a process with TensorFlow, and libraries shared by all processes.
_WORKER_BYTES, _SHARED_BYTES = 350 << 20, 400 << 20
# CPU seconds; a process that has used more was busy with other work before.
_LONGEST_IMPORT = 10.0


@dataclass(frozen=True)
class Estimate:
    """Estimated cost and output of a run; counts are those of the summary of the run.

    `spread` has the relative half-widths of 95 % intervals by name, from the variance within the sample; that of
    `seconds` includes the error of the model.
    """

    estimated_seconds: float  # wall time on an otherwise idle machine
    estimated_memory_bytes: int  # peak of all processes together
    estimated_disk_bytes: int  # size of the shards
    temporary_disk_bytes: int  # packed documents on disk until their shards are built
    shards: int
    documents: int  # used for examples
    tokens: int
    examples: int
    sample_bytes: int
    input_bytes: int  # on disk
    workers: int  # number of worker processes; 0 if everything runs in one process
    spread: dict[str, float]
    cpu_seconds: dict[str, float]  # CPU time by step

    def _interval(self, name: str, value: float, shown: Callable[[float], str]) -> str:
        low, high = (shown(value * (1 + sign * self.spread[name])) for sign in (-1, 1))
        return f"{low} to {high}" if self.spread[name] else "from the whole input"

    def table(self) -> str:
        """Returns a human-readable table, one line per estimate."""
        working = f"{self.workers} worker{'s' * (self.workers != 1)}" if self.workers else "one process"
        seconds, disk = self.estimated_seconds, self.estimated_disk_bytes
        rows = [
            ("time", in_time(seconds), f"{self._interval('seconds', seconds, in_time)}, {working}"),
            ("memory", in_bytes(self.estimated_memory_bytes), "peak of all processes"),
            ("disk", in_bytes(disk), f"{self._interval('disk_bytes', disk, in_bytes)}, {plural(self.shards, 'shard')}"),
            ("temporary", in_bytes(self.temporary_disk_bytes), "additional disk until the shards are built"),
        ]
        for name in ("documents", "tokens", "examples"):
            count = getattr(self, name)
            rows.append((name, f"{count:,}", self._interval(name, count, "{:,.0f}".format)))
        width = max(len(value) for _, value, _ in rows)
        cpu = sum(self.cpu_seconds.values())
        steps = ", ".join(f"{name} {seconds / max(cpu, 1e-9):.0%}" for name, seconds in self.cpu_seconds.items())
        return "\n".join(
            [
                f"estimate from {in_bytes(self.sample_bytes)} of {in_bytes(self.input_bytes)} of input:",
                *(f"  {name:<10} {value:>{width}}  {more}".rstrip() for name, value, more in rows),
                f"  {in_time(cpu)} of CPU time: {steps}",
            ]
        )


class Workers(NamedTuple):
    """Number of parallel processes (0: only the driver); `here` is True if they share this machine."""

    processes: int
    here: bool = True

    def seconds(self, costs: Sequence[float]) -> float:
        """Returns the wall time of tasks of `costs` CPU seconds, assigned round-robin as in Beam's local runner."""
        if not self.processes:
            return sum(costs)
        ordered = sorted(costs, reverse=True)
        longest = max(sum(ordered[number :: self.processes]) for number in range(self.processes))
        if self.here:
            longest = max(longest, sum(costs) / min(self.processes, available_cores()))
        return longest * (_TOGETHER if self.here and self.processes > 1 else 1.0)


def workers_of(options: PipelineOptions) -> Workers:
    """Returns the workers requested by `options`, which include the flags of `runners.runner_flags`."""
    direct, runner = options.view_as(DirectOptions), options.view_as(StandardOptions).runner
    if runner == "DataflowRunner":
        scaling = options.view_as(WorkerOptions)
        return Workers(scaling.max_num_workers or scaling.num_workers or 1, here=False)
    if runner in PORTABLE_RUNNERS:
        portable = options.view_as(PortableOptions)
        parallelism = options.view_as(FlinkRunnerOptions).parallelism
        count = parallelism if parallelism > 0 else int(portable.sdk_worker_parallelism)
        return Workers(max(count, 1), here=portable.environment_type in (None, "LOOPBACK"))
    return Workers(0 if direct.direct_running_mode == "in_memory" else direct.direct_num_workers or available_cores())


def estimate(plan: RunPlan, workers: Workers, sample_bytes: int = SAMPLE_BYTES) -> Estimate:
    """Estimates the cost of a run from about `sample_bytes` of text. Raises InputError if an input cannot be read."""
    # Up to here this process has done the same work as a worker before it loads TensorFlow.
    imported, driver = min(time.process_time(), _LONGEST_IMPORT), _resident().own
    begun = time.process_time()
    # A worker has one thread.
    with environment(TF_NUM_INTRAOP_THREADS="1"):
        sample_run = SampleRun(plan)
    loaded, worker = time.process_time() - begun, _resident()
    corpus, buckets = plan.corpus, plan.buckets
    units = read_sample(corpus, plan.settings, sample_bytes)
    numbers = range(len(corpus.inputs))
    whole = _Whole(corpus, [sample_run.measure([u for u in units if u.source == number]) for number in numbers])
    passes = plan.config.dupe_factor * max(corpus.weights)
    starting = workers.seconds([imported + loaded] * workers.processes) if workers.processes else loaded
    working = workers.seconds(whole.part_seconds(plan.settings)) + workers.seconds(whole.bucket_seconds(buckets))
    return Estimate(
        estimated_seconds=round(_DRIVER_SECONDS + starting + working, 1),
        estimated_memory_bytes=round(_memory(driver, worker, workers, whole, passes, buckets)),
        estimated_disk_bytes=round(whole.counts["disk"]),
        temporary_disk_bytes=round(whole.counts["packed"]),
        shards=len(plan.configs) * round(_filled(buckets, whole.counts["documents"])),
        documents=round(whole.counts["documents"]),
        tokens=round(whole.counts["tokens"]),
        examples=round(whole.counts["examples"]),
        sample_bytes=round(sum(unit.bytes for unit in units)),
        input_bytes=corpus.bytes,
        workers=workers.processes,
        spread=whole.spreads(),
        cpu_seconds={name: round(seconds, 2) for name, seconds in whole.seconds.items() if seconds},
    )


class _Whole:
    """Extrapolates the samples of all inputs, one for each input, to the whole corpus."""

    def __init__(self, corpus: Corpus, measured: Sequence[Measured]) -> None:
        self._corpus = corpus
        self._measured = measured
        sizes = [sum(file.size for file in corpus.files_of(source)) for source in range(len(measured))]
        self._scales = [size / max(sample.bytes, 1) for size, sample in zip(sizes, measured, strict=True)]
        self.counts = {name: self._total([sample.counts[name] for sample in measured]) for name in measured[0].counts}
        self.seconds = {name: self._total([sample.seconds[name] for sample in measured]) for name in STEPS}

    def _total(self, amounts: Sequence[float]) -> float:
        return sum(scale * amount for scale, amount in zip(self._scales, amounts, strict=True))

    def spreads(self) -> dict[str, float]:
        """Returns the spread of every estimate, see `Estimate`."""
        tokens = self.spread("tokens")
        spreads = {"seconds": math.hypot(tokens, _MODEL_SPREAD), "documents": self.spread("documents")}
        spreads |= dict.fromkeys(("disk_bytes", "tokens", "examples"), tokens)
        return {name: round(value, 4) for name, value in spreads.items()}

    def spread(self, name: str) -> float:
        """Returns two relative standard errors of the total `documents` or `tokens`."""
        errors = []
        for sample, scale in zip(self._measured, self._scales, strict=True):
            counts = [getattr(unit, name) for unit in sample.units]
            if scale <= 1.0 or not sum(counts):
                errors.append(0.0)
            elif len(counts) < 2:
                errors.append(_UNKNOWN_SPREAD * scale * counts[0])
            else:
                rate = sum(counts) / sample.bytes
                squares = sum(
                    (count - rate * unit.bytes) ** 2 for count, unit in zip(counts, sample.units, strict=True)
                )
                variance = squares * len(counts) / (len(counts) - 1) * (1 - 1 / scale)
                errors.append(2 * scale * math.sqrt(variance))
        return math.hypot(*errors) / max(self.counts[name], 1)

    def part_seconds(self, settings: ReadSettings) -> list[float]:
        """Returns the CPU seconds of each part from reading to tokenizing; one worker processes one part."""
        seconds = []
        for source, sample in enumerate(self._measured):
            files = self._corpus.files_of(source)
            format = FORMATS[self._corpus.inputs[source].format](settings)
            sizes = [file.size for file in files]
            if len(files) <= _MOST_FILES:
                sizes = [part.size for file in files for part in format.split(file)]
            seconds_per_byte = (sum(sample.seconds.values()) - sample.seconds[BUILD]) / max(sample.bytes, 1)
            seconds += [seconds_per_byte * size for size in sizes]
        return seconds

    def bucket_seconds(self, buckets: Buckets) -> list[float]:
        """Returns the CPU seconds to build the shards of each bucket."""
        held_out = buckets.validation_fraction
        groups = ((buckets.train, 1 - held_out), (buckets.validation, held_out))
        return [self.seconds[BUILD] * share / count for count, share in groups for _ in range(count)]


def _memory(driver: int, worker: _Resident, workers: Workers, whole: _Whole, passes: float, buckets: Buckets) -> float:
    """Returns the peak memory of all processes, reached while the largest buckets are built."""
    tokens = whole.counts["tokens"] * (1 - buckets.validation_fraction) / buckets.train
    making = tokens * (_BUCKET_BYTES + _PASS_BYTES * passes)
    gathered = whole.counts["shuffled"]
    if not workers.processes:
        return worker.shared + worker.own + _WORK_BYTES + making + _COPIES_IN_PROCESS * gathered
    total = worker.shared + driver + _DRIVING_BYTES + _GATHERED_COPIES * gathered
    return total + workers.processes * (worker.own + _WORK_BYTES) + min(workers.processes, buckets.train) * making


def _filled(buckets: Buckets, documents: float) -> float:
    """Returns the expected number of non-empty buckets."""
    held_out = buckets.validation_fraction * documents
    groups = ((buckets.train, documents - held_out), (buckets.validation, held_out))
    return sum(count * (1 - (1 - 1 / count) ** share) for count, share in groups if count)


class _Resident(NamedTuple):
    """Memory of this process in bytes: private memory, and files mapped by other processes as well."""

    own: int
    shared: int


def _resident() -> _Resident:
    try:
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
    except OSError:  # not Linux
        return _Resident(_WORKER_BYTES, _SHARED_BYTES)
    sizes = {line.partition(":")[0]: int(line.split()[1]) << 10 for line in lines}
    return _Resident(sizes["Anonymous"], sizes["Rss"] - sizes["Anonymous"])

"""Accounts of documents: a tally of all documents, and dead letters for the first faulty ones of each reason.

Both are written by the pipeline, so unlike metrics they are the same on every runner.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.transforms.combiners import TopCombineFn

from beam_pipelines.errors import PipelineError
from beam_pipelines.output import storage
from beam_pipelines.output.run_output import RunOutput
from beam_pipelines.sources.documents import EXCERPT_CHARACTERS, FAULTS, RawDocument

NAMESPACE = "bert_tf"
READ = "read"
# Outputs of a DoFn over batches: ((source, READ or a reason), number of documents) and (reason, JSON object).
TALLY, DEAD_LETTERS = "tally", "dead_letters"
TALLY_NAME = "tally.jsonl"
# Dead letters listed per reason: the first by file and place, compared as text. All are counted.
MOST_LISTED = 1000
# Workers that select the first dead letters of one reason in parallel.
_FANOUT = 16
_EXCERPT_OF_ERROR = 80


@dataclass(frozen=True)
class FaultLimit:
    """Limit of faulty documents at which a run fails.

    The share of faulty documents is known only after all documents are read. Before that, a run fails early if the
    faulty documents exceed `max_rejected_fraction` of the maximum number of documents in the input.
    """

    max_rejected_fraction: float
    most_documents: float  # upper bound of the input; infinite if absent

    @property
    def certain(self) -> float:
        """Maximum number of faulty documents; one more exceeds the limit whatever the rest of the input is."""
        if not self.max_rejected_fraction:
            return 0.0
        return self.max_rejected_fraction * self.most_documents


def account(batch: list[RawDocument], left_out: Iterable[tuple[RawDocument, str]]) -> Iterator[Any]:
    """Yields the values of the outputs `TALLY` and `DEAD_LETTERS` for a batch, of which some documents are left out."""
    counts = Counter((document.source, READ) for document in batch)
    for document, reason in left_out:
        counts[document.source, reason] += 1
        if reason in FAULTS:
            yield beam.pvalue.TaggedOutput(DEAD_LETTERS, _dead_letter(document, reason))
    for (source, what), count in sorted(counts.items()):
        beam.metrics.Metrics.counter(NAMESPACE, f"documents_{what}").inc(count)
        yield beam.pvalue.TaggedOutput(TALLY, ((source, what), count))


def _dead_letter(document: RawDocument, reason: str) -> tuple[str, str]:
    excerpt = " ".join(document.paragraphs)[:EXCERPT_CHARACTERS]
    letter = {"reason": reason, "file": document.file, "place": document.place, "excerpt": excerpt}
    return reason, json.dumps(letter, ensure_ascii=False)


def write_accounts(
    outputs: beam.pvalue.DoOutputsTuple, output: RunOutput, dead_letters: str, directory: str, limit: FaultLimit
) -> beam.PCollection[str]:
    """Writes the outputs `TALLY` and `DEAD_LETTERS` of a ParDo, and fails the run if too many documents are faulty.

    The file `dead_letters` has the first faulty documents of each reason, one JSON object per line; it is not written
    if there are none. The tally is the file `TALLY_NAME` in `directory`. Returns a collection that is complete after
    both files are written and the limit is checked, so that later steps can wait for it (`beam.WaitOn`).
    """
    first = beam.CombinePerKey(TopCombineFn(MOST_LISTED, reverse=True))
    listed = (
        outputs[DEAD_LETTERS]
        | "StopWhenCertain" >> beam.ParDo(StopWhenCertain(limit)).with_output_types(tuple[str, str])
        | "FirstOfEachReason" >> first.with_hot_key_fanout(_FANOUT)
        | "Lines" >> beam.FlatMap(_values).with_output_types(str)
        | "DeadLetters" >> _write_lines(output, dead_letters)
    )
    return (
        outputs[TALLY]
        | "AddUp" >> beam.CombinePerKey(sum)
        | "AsText" >> beam.Map(json.dumps).with_output_types(str)
        | "WriteTally" >> _write_lines(output, storage.join(directory, TALLY_NAME))
        | "UntilListed" >> beam.WaitOn(listed)
        | "CheckFaults" >> beam.Map(_checked, limit.max_rejected_fraction, directory, dead_letters)
    )


def _values(element: tuple[str, list[str]]) -> list[str]:
    return element[1]


class Tally:
    """Number of documents read and left out, by source and `READ` or a reason."""

    def __init__(self, counts: Mapping[tuple[int, str], int]) -> None:
        self._counts = Counter(counts)

    @classmethod
    def load(cls, directory: str) -> Tally:
        """Reads the tally of `write_accounts` in `directory`; empty if absent."""
        content = storage.read(storage.join(directory, TALLY_NAME)) or b""
        lines = [json.loads(line) for line in content.splitlines()]
        return cls({(source, what): count for (source, what), count in lines})

    def read(self, source: int | None = None) -> int:
        """Returns the number of documents read, of one source or of all."""
        return sum(n for (number, what), n in self._counts.items() if what == READ and source in (None, number))

    def left_out(self, source: int | None = None) -> Counter[str]:
        """Returns the number of documents left out by reason, of one source or of all."""
        total: Counter[str] = Counter()
        for (number, what), count in sorted(self._counts.items()):
            if what != READ and source in (None, number):
                total[what] += count
        return total

    def check_faults(self, max_rejected_fraction: float, dead_letters: str) -> None:
        """Raises PipelineError if too many documents are faulty; the file `dead_letters` lists the first of them."""
        refused, read = sum(self.faults().values()), self.read()
        if refused > max_rejected_fraction * read:
            first = (storage.read(dead_letters) or b"{}").splitlines()[0].decode()
            raise PipelineError(
                f"{refused} of {read} documents were rejected ({_in_words(self.faults())}), more than "
                f"--max_rejected_fraction {max_rejected_fraction} allows. See {dead_letters}, which lists "
                f"{self.listed()}. First: {_shown(first)}"
            )

    def faults(self) -> Counter[str]:
        """Returns the number of faulty documents by reason."""
        return Counter({reason: count for reason, count in self.left_out().items() if reason in FAULTS})

    def listed(self) -> str:
        """Returns a phrase for the faulty documents that are listed as dead letters."""
        complete = all(count <= MOST_LISTED for count in self.faults().values())
        return "them" if complete else f"the first {MOST_LISTED:,} of each reason"

    def rejections(self, dead_letters: str) -> str:
        """Returns a one-line summary of the faulty documents, empty if there are none."""
        faults = self.faults()
        if not faults:
            return ""
        total = sum(faults.values())
        return f"{total} documents were rejected ({_in_words(faults)}); {dead_letters} lists {self.listed()}"


def _in_words(faults: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in sorted(faults.items()))


def _shown(letter: str) -> str:
    fields = json.loads(letter)
    return f"{fields.get('file')}, {fields.get('place')}: {fields.get('excerpt', '')[:_EXCERPT_OF_ERROR]!r}"


class StopWhenCertain(beam.DoFn):
    """Passes dead letters on, and fails the run as soon as their number exceeds the limit.

    Dead letters are counted per bundle, because a runner may process a bundle again with the same dead letters.
    """

    def __init__(self, limit: FaultLimit) -> None:
        self._limit = limit

    def start_bundle(self) -> None:
        """Resets the count."""
        self._count = 0

    def process(self, element: tuple[str, str]) -> Iterable[tuple[str, str]]:
        """Yields `element`."""
        self._count += 1
        if self._count > self._limit.certain:
            most = self._limit.most_documents
            bound = f" of an input of at most {most:,.0f}" if math.isfinite(most) else ""
            raise PipelineError(
                f"{self._count} documents{bound} were rejected so far, more than --max_rejected_fraction "
                f"{self._limit.max_rejected_fraction} allows. Last: {_shown(element[1])}. Set a larger fraction to get "
                "a list of them."
            )
        yield element


def _checked(path: str, max_rejected_fraction: float, directory: str, dead_letters: str) -> str:
    """Returns the path of the tally, and fails the run if too many documents are faulty."""
    Tally.load(directory).check_faults(max_rejected_fraction, dead_letters)
    return path


@beam.ptransform_fn
def _write_lines(lines: beam.PCollection[str], output: RunOutput, path: str) -> beam.PCollection[str]:
    """Writes all strings of a collection, sorted, as lines of one file; writes no file if there are none.

    All lines must fit in the memory of one worker.
    """
    return (
        lines
        | "OneKey" >> beam.Map(_with_one_key).with_output_types(tuple[int, str])
        | "Gather" >> beam.GroupByKey()
        | "Write" >> beam.Map(_write_gathered, output, path).with_output_types(str)
    )


def _with_one_key(line: str) -> tuple[int, str]:
    return 0, line


def _write_gathered(element: tuple[int, Iterable[str]], output: RunOutput, path: str) -> str:
    output.write(path, "".join(f"{line}\n" for line in sorted(element[1])).encode("utf-8"))
    return path

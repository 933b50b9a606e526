"""What became of the documents that are read: a tally for all, a dead letter for each faulty one.

Both are written by the pipeline itself and so are the same on every runner, unlike metrics.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam

from beam_pipelines import storage
from beam_pipelines.errors import PipelineError
from beam_pipelines.sources.documents import EXCERPT_CHARACTERS, FAULTS, RawDocument

NAMESPACE = "bert_tf"
READ = "read"
# Outputs of a DoFn that reads batches: ((source, READ or a reason), documents) and JSON objects.
TALLY, DEAD_LETTERS = "tally", "dead_letters"
TALLY_NAME = "tally.jsonl"


def account(batch: list[RawDocument], left_out: Iterable[tuple[RawDocument, str]]) -> Iterator[Any]:
    """Yields the values of the outputs `TALLY` and `DEAD_LETTERS` for a batch.

    Args:
        batch: all documents read.
        left_out: those that go no further, each with the reason.
    """
    counts = Counter((document.source, READ) for document in batch)
    for document, reason in left_out:
        counts[document.source, reason] += 1
        if reason in FAULTS:
            yield beam.pvalue.TaggedOutput(DEAD_LETTERS, _dead_letter(document, reason))
    for (source, what), count in sorted(counts.items()):
        beam.metrics.Metrics.counter(NAMESPACE, f"documents_{what}").inc(count)
        yield beam.pvalue.TaggedOutput(TALLY, ((source, what), count))


def _dead_letter(document: RawDocument, reason: str) -> str:
    excerpt = " ".join(document.paragraphs)[:EXCERPT_CHARACTERS]
    letter = {"reason": reason, "file": document.file, "place": document.place, "excerpt": excerpt}
    return json.dumps(letter, ensure_ascii=False)


def write_accounts(outputs: beam.pvalue.DoOutputsTuple, dead_letters: str, directory: str) -> None:
    """Writes the outputs `TALLY` and `DEAD_LETTERS` of a DoFn.

    Args:
        outputs: of a ParDo with these outputs.
        dead_letters: file for the faulty documents, one JSON object a line; absent where there are none.
        directory: where the tally goes, in the file `TALLY_NAME`.
    """
    _ = outputs[DEAD_LETTERS] | "DeadLetters" >> _WriteLines(dead_letters)
    _ = (
        outputs[TALLY]
        | "AddUp" >> beam.CombinePerKey(sum)
        | "AsText" >> beam.Map(json.dumps).with_output_types(str)
        | "WriteTally" >> _WriteLines(storage.join(directory, TALLY_NAME))
    )


class Tally:
    """How many documents of each source were read, and left out for each reason.

    Args:
        counts: (source, `READ` or a reason) to documents.
    """

    def __init__(self, counts: Mapping[tuple[int, str], int]) -> None:
        self._counts = Counter(counts)

    @classmethod
    def load(cls, directory: str) -> Tally:
        """Reads what `write_accounts` left in `directory`; empty where it left nothing."""
        content = storage.read(storage.join(directory, TALLY_NAME)) or b""
        lines = [json.loads(line) for line in content.splitlines()]
        return cls({(source, what): count for (source, what), count in lines})

    def read(self, source: int | None = None) -> int:
        """Returns the documents read, of one source or of all."""
        return sum(n for (number, what), n in self._counts.items() if what == READ and source in (None, number))

    def left_out(self, source: int | None = None) -> Counter[str]:
        """Returns the documents left out by reason, of one source or of all."""
        total: Counter[str] = Counter()
        for (number, what), count in sorted(self._counts.items()):
            if what != READ and source in (None, number):
                total[what] += count
        return total

    def check_faults(self, max_rejected_fraction: float, dead_letters: str) -> None:
        """Raises PipelineError when too many documents are faulty; `dead_letters` is the file that lists them."""
        faults = {reason: count for reason, count in self.left_out().items() if reason in FAULTS}
        refused, read = sum(faults.values()), self.read()
        if refused > max_rejected_fraction * read:
            reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(faults.items()))
            first = json.loads((storage.read(dead_letters) or b"{}").splitlines()[0])
            raise PipelineError(
                f"{refused} of {read} documents were rejected ({reasons}), more than --max_rejected_fraction "
                f"{max_rejected_fraction} allows; {dead_letters} lists them, one is {first.get('file')}, "
                f"{first.get('place')}: {first.get('excerpt', '')[:80]!r}"
            )


class _WriteLines(beam.PTransform):
    """Writes all strings of a collection, sorted, as the lines of one file; no file where there are none."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def expand(self, lines: beam.PCollection[str]) -> beam.PCollection[str]:
        return (
            lines
            | "OneKey" >> beam.Map(_with_one_key).with_output_types(tuple[int, str])
            | "Gather" >> beam.GroupByKey()
            | "Write" >> beam.ParDo(_WriteGathered(self._path))
        )


def _with_one_key(line: str) -> tuple[int, str]:
    return 0, line


class _WriteGathered(beam.DoFn):
    def __init__(self, path: str) -> None:
        self._path = path

    def process(self, element: tuple[int, Iterable[str]]) -> Iterable[str]:
        lines = sorted(element[1])
        storage.write(self._path, "".join(f"{line}\n" for line in lines).encode("utf-8"))
        yield self._path

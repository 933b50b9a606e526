"""What a pipeline saw, written by the pipeline itself: the same on every runner, unlike metrics."""

from __future__ import annotations

from collections.abc import Iterable

import apache_beam as beam

from beam_pipelines import storage
from beam_pipelines.transforms.rejections import READ, REJECTED

DOCUMENTS_READ = "documents_read.txt"


def write_reports(outputs: beam.pvalue.DoOutputsTuple, dead_letters: str, directory: str) -> None:
    """Writes the outputs `rejected` and `read` of a DoFn.

    Args:
        outputs: of a ParDo with these outputs.
        dead_letters: file for the rejected documents, one JSON object a line; absent where there are none.
        directory: where the number of documents goes, in the file `DOCUMENTS_READ`.
    """
    _ = outputs[REJECTED] | "DeadLetters" >> _WriteLines(dead_letters)
    _ = (
        outputs[READ]
        | "CountDocuments" >> beam.CombineGlobally(sum)
        | "AsText" >> beam.Map(str).with_output_types(str)
        | "WriteCount" >> _WriteLines(storage.join(directory, DOCUMENTS_READ))
    )


def read_document_count(directory: str) -> int:
    """Returns the number of documents that `write_reports` left in `directory`, 0 where it left none."""
    return int(storage.read(storage.join(directory, DOCUMENTS_READ)) or 0)


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

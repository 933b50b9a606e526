"""Dead letters: one JSON object for each document that is left out, with the reason."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam

from beam_pipelines.errors import PipelineError
from beam_pipelines.sources.documents import RawDocument

NAMESPACE = "bert_tf"
EMPTY = "empty"
READ, REJECTED = "read", "rejected"
_EXCERPT_CHARACTERS = 200


def dead_letters(rejected: Iterable[tuple[RawDocument, str]]) -> Iterator[Any]:
    """Yields a value of the output `rejected` for every (document, reason), and counts it."""
    for document, reason in rejected:
        beam.metrics.Metrics.counter(NAMESPACE, f"rejected_{reason}").inc()
        excerpt = " ".join(document.paragraphs)[:_EXCERPT_CHARACTERS]
        letter = {"reason": reason, "file": document.source, "line": document.line, "excerpt": excerpt}
        yield beam.pvalue.TaggedOutput(REJECTED, json.dumps(letter, ensure_ascii=False))


def documents_read(batch: list[RawDocument]) -> Any:
    """Returns a value of the output `read`: the number of documents in `batch`, which is counted too."""
    beam.metrics.Metrics.counter(NAMESPACE, "documents_read").inc(len(batch))
    return beam.pvalue.TaggedOutput(READ, len(batch))


def rejected_by_reason(content: bytes | None) -> Counter[str]:
    """Counts the reasons in the content of a dead letter file."""
    return Counter(json.loads(line)["reason"] for line in (content or b"").splitlines())


def check_rejected(read: int, rejected: Counter[str], max_rejected_fraction: float, dead_letters: str) -> None:
    """Raises PipelineError when `rejected` of `read` documents are too many; `dead_letters` is a path to name."""
    refused = sum(rejected.values())
    if refused > max_rejected_fraction * read:
        reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(rejected.items()))
        raise PipelineError(
            f"{refused} of {read} documents were rejected ({reasons}), more than --max_rejected_fraction "
            f"{max_rejected_fraction} allows; {dead_letters} lists them."
        )

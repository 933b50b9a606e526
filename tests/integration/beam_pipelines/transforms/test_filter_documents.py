"""Words, symbols, languages, and the reasons for documents left out by the rules."""

from __future__ import annotations

import apache_beam as beam
from apache_beam.testing.util import assert_that, equal_to

from beam_pipelines.sources.documents import OVER_LONG, RawDocument
from beam_pipelines.transforms.filter_documents import filter_documents
from bert_tf.config import CleaningConfig
from tests.support.beam_pipelines.cleaning_samples import PROSE, as_batch

EVERYTHING = CleaningConfig(language_filter=True, min_words=5, max_symbol_ratio=0.1, max_repeated_lines=0.3)


REASONS = {
    "short": ("Too short, $ $ $.", "too_short"),
    "symbols": (PROSE["de"] + " {}" * 20 + "\nx" * 20, "symbols"),
    "repeated": ("\n".join([PROSE["de"]] * 4), "repeated_lines"),
    "foreign": (PROSE["de"], "language"),
    "kept": (PROSE["en"], ""),
}


def test_filtered_batches_in_a_pipeline() -> None:
    given_reason = RawDocument("b.txt", "line 9", ("$" * 300,), OVER_LONG)
    batch = [*as_batch(text.split("\n") for text, _ in REASONS.values()), given_reason]
    wanted = list(batch)
    for number, (text, reason) in enumerate(REASONS.values()):
        if reason:
            beginning = text.replace("\n", " ")[:200]
            wanted[number] = batch[number]._replace(paragraphs=(beginning,), reason=reason)
    with beam.Pipeline("FnApiRunner") as pipeline:
        filtered = pipeline | beam.Create([batch, []]) | beam.Map(filter_documents, EVERYTHING, ("en",))
        assert_that(filtered, equal_to([wanted, []]))

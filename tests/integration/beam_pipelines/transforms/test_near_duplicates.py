"""Near-duplicates: shingles, signatures and bands against plain Python, datasketch and known similarities."""

from __future__ import annotations

import random
from collections.abc import Sequence

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.util import assert_that

from beam_pipelines.cleaning.signatures import (
    band_shape,
    find_near_duplicates,
    sign_documents,
)
from beam_pipelines.transforms.near_duplicates import near_duplicate_ids
from beam_pipelines.transforms.tokenize import Buckets
from tests.support.beam_pipelines.cleaning_samples import as_batch, random_words

THRESHOLD = 0.8
BUCKETS = Buckets(seed=1, train=3, validation=1, validation_fraction=0.2)


def near_duplicates(documents: Sequence[Sequence[str]]) -> set[int]:
    table = sign_documents(documents, 7, *band_shape(THRESHOLD))
    return set(find_near_duplicates(table, THRESHOLD).tolist())


@pytest.mark.parametrize(("batch_size", "reverse", "rows_a_table"), [(7, False, 20 * 17), (100, True, 10_000)])
def test_pipeline_and_functions_find_the_same_duplicates(
    batch_size: int, reverse: bool, rows_a_table: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beam_pipelines.transforms.near_duplicates._ROWS_A_TABLE", rows_a_table)
    rng = random.Random(1)
    originals = [random_words(rng, 100) for _ in range(60)]
    documents = [[" ".join(words)] for words in originals]
    documents += [[" ".join([*words, "again"])] for words in originals[:40]]
    left_out = [
        document._replace(reason="language") for document in as_batch([[" ".join(words[1:])] for words in originals])
    ]
    wanted = near_duplicates(documents)
    assert len(wanted) == 40
    batch = as_batch(documents) + as_batch(documents[:5]) + left_out
    batch = batch[::-1] if reverse else batch
    batches = [batch[begin : begin + batch_size] for begin in range(0, len(batch), batch_size)]

    def check(outputs: list[tuple[int, bytes]]) -> None:
        found = set()
        for bucket, packed in outputs:
            ids = np.frombuffer(packed, "<i8")
            assert len(ids)
            assert set(BUCKETS.of(ids).tolist()) == {bucket}
            found |= set(ids.tolist())
        assert found == wanted

    with beam.Pipeline("FnApiRunner") as pipeline:
        ids = pipeline | beam.Create([*batches, []]) | near_duplicate_ids(THRESHOLD, 7, BUCKETS)
        assert_that(ids, check)

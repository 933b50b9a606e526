"""Versions that a worker must share with its driver."""

from __future__ import annotations

import pickle

import pytest

from beam_pipelines.errors import PipelineError
from beam_pipelines.runners.versions import SameVersionsDoFn, pipeline_versions
from beam_pipelines.transforms.build_shards import BuildShard
from beam_pipelines.transforms.count_words import CountWords
from beam_pipelines.transforms.tokenize import TokenizeDocuments


def test_equal_versions_pass() -> None:
    pickle.loads(pickle.dumps(SameVersionsDoFn())).setup()


@pytest.mark.parametrize("name", ["apache-beam", "numpy", "python", "python-unicode", "sentencex", "tensorflow-text"])
def test_another_version_is_named(name: str) -> None:
    expected = pipeline_versions()
    do_fn = pickle.loads(pickle.dumps(SameVersionsDoFn(versions={**expected, name: "0.0"})))
    with pytest.raises(PipelineError, match=f": {name} {expected[name]} instead of 0.0. Install"):
        do_fn.setup()


@pytest.mark.parametrize("do_fn", [BuildShard, CountWords, TokenizeDocuments])
def test_the_functions_that_determine_the_result_check_the_versions(do_fn: type[SameVersionsDoFn]) -> None:
    other = do_fn.__new__(do_fn)
    other.versions = {**pipeline_versions(), "python": "2.7"}
    with pytest.raises(PipelineError, match=r"instead of 2\.7"):
        other.setup()

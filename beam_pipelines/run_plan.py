"""The plan of a run: everything that determines the bytes of its shards."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from beam_pipelines.sources.corpus import Corpus
from beam_pipelines.sources.documents import ReadSettings
from beam_pipelines.transforms.tokenize import Buckets
from bert_tf.config import DataConfig
from bert_tf.data.schema import length_folder
from bert_tf.reports.data.facts import FEWEST_HELD_OUT
from bert_tf.text.vocabulary import Vocabulary

# Bytes of text in one bucket: about 8 M tokens, which take a few hundred megabytes of memory while the shard is
# built. For Wikipedia these are 10,000 documents to draw random next segments from.
_BUCKET_BYTES = 32 << 20
# Bytes of text for each token: English Wikipedia has 4.2.
_TOKEN_BYTES = 4
LEAST_HELD_OUT, _MOST_HELD_OUT = 0.01, 0.1


@dataclass(frozen=True)
class RunPlan:
    """Input and settings of a run.

    `configs` has the settings of the examples by shard folder, with `num_shards` resolved. There is one for each
    length; a single length uses the data directory itself.
    """

    corpus: Corpus
    settings: ReadSettings
    configs: dict[str, DataConfig]
    vocabulary: Vocabulary  # vocabulary of the token ids
    buckets: Buckets  # they name the shards

    @property
    def config(self) -> DataConfig:
        """Settings of the first length; the others differ only in length."""
        return next(iter(self.configs.values()))


def plan_run(corpus: Corpus, settings: ReadSettings, configs: Sequence[DataConfig], vocabulary: Vocabulary) -> RunPlan:
    """Plans a run with one config for each length.

    A `num_shards` of 0 is replaced so that a bucket has about 32 MB of text. Validation shards are as large as training
    shards; there is at least one if documents are held out. A negative `validation_fraction` is replaced so that enough
    examples are expected to be held out.
    """
    first = configs[0]
    if first.validation_fraction < 0:
        first = dataclasses.replace(first, validation_fraction=_held_out_share(corpus.text_bytes, first))
    train = first.num_shards or max(1, math.ceil(corpus.text_bytes / _BUCKET_BYTES))
    share = first.validation_fraction
    validation = max(1, round(train * share / (1 - share))) if share else 0
    folders = [length_folder(config.max_seq_length) for config in configs] if len(configs) > 1 else [""]
    resolved = [dataclasses.replace(config, num_shards=train, validation_fraction=share) for config in configs]
    buckets = Buckets(first.seed, train, validation, share)
    return RunPlan(corpus, settings, dict(zip(folders, resolved, strict=True)), vocabulary, buckets)


def _held_out_share(text_bytes: int, config: DataConfig) -> float:
    """Returns a share of documents with about `FEWEST_HELD_OUT` examples, in hundredths from 0.01 to 0.1."""
    examples = text_bytes / _TOKEN_BYTES / config.max_seq_length * config.dupe_factor
    # Half as many again, because documents differ in length and are drawn at random.
    enough = math.ceil(150 * FEWEST_HELD_OUT / max(examples, 1)) / 100
    return min(max(enough, LEAST_HELD_OUT), _MOST_HELD_OUT)

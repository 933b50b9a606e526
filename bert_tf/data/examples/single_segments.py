"""Single segments of consecutive sentences, for pre-training without next sentence prediction.

Whole sentences of a document are packed up to the target length (DOC-SENTENCES of RoBERTa, arXiv 1907.11692, section
4.2). A sentence longer than an example is first cut at the last word start that fits, so no token is lost.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

import numpy as np

from bert_tf.config.data import DataConfig
from bert_tf.data.examples.draw import Bucket, Chunks, sentence_keys, target_lengths
from bert_tf.text.vocabulary import Vocabulary


def draw_singles(bucket: Bucket, config: DataConfig, vocabulary: Vocabulary, copy: int) -> tuple[Chunks, int]:
    """Draws the segments of every document in pass number `copy`; each pass draws different lengths.

    Returns chunks without a second segment, sorted by key, and 0, the number of skipped chunks.
    """
    bucket = cut_long_sentences(bucket, vocabulary.is_continuation, config.max_seq_length - 2)
    keys = sentence_keys(bucket, config, copy)
    goals, offsets = target_lengths(keys, config).tolist(), bucket.offsets.tolist()
    begins: list[int] = []
    stops: list[int] = []
    for low, high in pairwise(bucket.first.tolist()):
        begin = low
        while begin < high:
            stop = bisect_right(offsets, offsets[begin] + goals[begin], begin + 1, high + 1) - 1
            begins.append(begin)
            stops.append(max(stop, begin + 1))
            begin = stops[-1]
    order = np.argsort(keys[begins], kind="stable")
    first = np.array(begins, np.int64)[order]
    end = bucket.offsets[np.array(stops, np.int64)[order]]
    return Chunks(bucket.offsets[first], end, end, end, np.zeros(len(first), bool), keys[first]), 0


def cut_long_sentences(bucket: Bucket, is_continuation: np.ndarray, longest: int) -> Bucket:
    """Cuts sentences of more than `longest` tokens into several, at word starts, or within a word that is longer.

    `is_continuation`, bool [V], is True for word pieces that continue a word.
    """
    long = np.flatnonzero(np.diff(bucket.offsets) > longest)
    cuts: list[int] = []
    added = np.zeros(len(bucket.offsets), np.int64)
    for sentence in long.tolist():
        begin, end = int(bucket.offsets[sentence]), int(bucket.offsets[sentence + 1])
        while end - begin > longest:
            starts = np.flatnonzero(~is_continuation[bucket.token_ids[begin + 1 : begin + longest + 1]])
            begin += 1 + int(starts[-1]) if len(starts) else longest
            cuts.append(begin)
            added[sentence + 1] += 1
    offsets = np.sort(np.concatenate([bucket.offsets, np.array(cuts, np.int64)]))
    return Bucket(bucket.ids, bucket.token_ids, offsets, bucket.first + np.cumsum(added)[bucket.first])

"""Measures the CPU time of each stage of a pipeline by timing its functions in this process."""

from __future__ import annotations

import contextlib
import functools
import inspect
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_REST = "Beam and the rest"


class StageClock:
    """CPU seconds of named stages; time in a nested stage is counted for the nested stage only."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._stack = [_REST]
        self._since = time.process_time()

    @contextlib.contextmanager
    def within(self, stage: str) -> Iterator[None]:
        """Counts the time of the block for `stage`."""
        self._charge()
        self._stack.append(stage)
        try:
            yield
        finally:
            self._charge()
            self._stack.pop()

    def _charge(self) -> None:
        now = time.process_time()
        self.seconds[self._stack[-1]] += now - self._since
        self._since = now

    def wrap(self, function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        """Returns `function` with its time counted for `stage`; a generator is timed step by step."""

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.within(stage):
                result = function(*args, **kwargs)
            return self._steps(result, stage) if inspect.isgenerator(result) else result

        return timed

    def _steps(self, generator: Iterator[Any], stage: str) -> Iterator[Any]:
        while True:
            with self.within(stage):
                try:
                    value = next(generator)
                except StopIteration:
                    return
            yield value


@contextlib.contextmanager
def _patched(clock: StageClock, places: Sequence[tuple[Any, str, str]]) -> Iterator[None]:
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
    for (owner, name, original), (_, _, stage) in zip(originals, places, strict=True):
        setattr(owner, name, clock.wrap(original, stage))
    try:
        yield
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)


def pretraining_stages(argv: Sequence[str]) -> dict[str, float]:
    """Runs `create_pretraining_data` in this process on one core.

    Args:
        argv: flags of the pipeline; the flags of the runner are overridden.

    Returns:
        CPU seconds by stage, the largest first.
    """
    from beam_pipelines import create_pretraining_data
    from beam_pipelines.sources.text import Text
    from beam_pipelines.transforms import build_shards, tokenize
    from bert_tf.data.examples.build import Examples
    from bert_tf.text.tokenizer import BertTokenizer

    clock = StageClock()
    places = [
        (tokenize, "shared_tokenizer", "loading TensorFlow, compiling the vocabulary"),
        (Text, "read", "reading"),
        (tokenize, "split_sentences", "sentence splitting"),
        (BertTokenizer, "tokenize", "tokenizing"),
        (tokenize, "document_id", "document ids"),
        (tokenize, "pack", "packing for the shuffle"),
        (build_shards, "unpack", "unpacking from the shuffle"),
        (build_shards, "select_documents", "deduplication"),
        (build_shards, "draw_examples", "drawing pairs"),
        (Examples, "rows", "laying out pairs"),
        (build_shards, "mask_pairs", "masking"),
        (build_shards, "encode_static", "encoding"),
        (build_shards, "encode_dynamic", "encoding"),
        (build_shards, "write_shard", "framing, checksums, writing"),
        (create_pretraining_data, "page", "report page"),
    ]
    with _patched(clock, places), clock.within(_REST):
        create_pretraining_data.run([*argv, "--direct_running_mode=in_memory", "--direct_num_workers=1"])
    return dict(sorted(clock.seconds.items(), key=lambda item: -item[1]))

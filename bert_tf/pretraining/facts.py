"""Facts about the data of a pre-training run, for its page, its preset and the model card of an export."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bert_tf.config import RunConfig
from bert_tf.data.examples.sample_examples import Token
from bert_tf.data.manifest import Manifest
from bert_tf.entry.amounts import plural
from bert_tf.text.vocabulary import CONTINUATION

_MASK = "[MASK]"
# Most words of a sample text.
_WORDS = 30
# Spaces that word pieces do not keep: those that no text has before or after punctuation.
_SPACES = re.compile(r" (?=[.,;:!?)\]}%])|(?<=[(\[{]) | (?=['’] ?s\b)|(?<=['’]) (?=s\b)")


def data_facts(data: Path, manifests: Sequence[Manifest]) -> dict[str, Any]:
    """Returns the name of the data, the number of training examples, and the languages of the corpus.

    Args:
        data: the data directory, or the directory of several lengths.
        manifests: manifests of all lengths.

    Returns:
        `data_name`, `train_examples`, `languages` (sorted), `max_sequence_length` and `lowercase`.
    """
    return {
        "data_name": "/".join(data.absolute().parts[-2:]),
        "train_examples": sum(manifest.examples("train") for manifest in manifests),
        "languages": sorted({source.language for manifest in manifests for source in manifest.sources}),
        "max_sequence_length": max(manifest.config.max_seq_length for manifest in manifests),
        "lowercase": manifests[0].config.lowercase,
    }


def amount_of_data(manifest: Manifest, rows: int) -> str:
    """Returns a line on the training examples of a data directory, and on those that a run takes.

    Args:
        manifest: manifest of the data.
        rows: examples in all batches of the run.
    """
    length, examples = manifest.config.max_seq_length, manifest.examples("train")
    tokens = rows * length * manifest.fill
    return (
        f"data: {plural(examples, 'example')} of {length} tokens, {manifest.fill:.0%} filled; the run takes {rows:,}, "
        f"{tokens / 1e6:,.1f} M tokens, {rows / max(examples, 1):,.2g} passes"
    )


def chance_line(chance: Mapping[str, float]) -> str:
    """Returns a line on the metrics of the best constant guess.

    Args:
        chance: the metrics; empty if no examples are held out.
    """
    for prefix, pieces in (("mlm", "masked pieces"), ("causal_lm", "next pieces")):
        if f"{prefix}_perplexity" in chance:
            return (
                f"chance: perplexity {chance[f'{prefix}_perplexity']:,.0f}, {chance[f'{prefix}_accuracy']:.1%} of "
                f"{pieces}, by the frequencies of the held-out pieces alone"
            )
    return "chance: unknown, because no examples are held out (`bert-tf data --validation_fraction`)"


def next_step(run: RunConfig) -> str:
    """Returns advice for a run that ended near chance.

    Args:
        run: configuration of the run.
    """
    ways = [f"train longer (`--steps {2 * run.training.steps}`)"]
    if run.model.positions == "learned":
        ways.append("use rotary positions (`--set model.positions=rotary`, docs/bodies.md)")
    if run.training.optimizer != "muon":
        ways.append("use Muon (`--set training.optimizer=muon`, with the rates of the recipe `laptop`)")
    return f"{', '.join(ways[:-1])} or {ways[-1]}." if len(ways) > 1 else f"{ways[0]}, or use a smaller model."


def sample_inputs(tokens: Sequence[Token]) -> dict[str, str]:
    """Returns the input of an exported masked language model for the first segment of a held-out example.

    Args:
        tokens: the example, with masks.

    Returns:
        `text`, the original words with one [MASK]; {} if no word can be masked.
    """
    words: list[list[Token]] = []
    for token in tokens:
        if token.segment == 0 and not token.special:
            if token.continues and words:
                words[-1].append(token)
            else:
                words.append([token])
    words = words[:_WORDS]
    single = [number for number, word in enumerate(words) if len(word) == 1 and _original(word[0]).isalnum()]
    if not single:
        return {}
    predicted = [number for number in single if words[number][0].fate]
    masked = (predicted or single[len(single) // 2 :])[0]
    texts = ["".join(map(_original, word)) for word in words]
    texts[masked] = _MASK
    return {"text": _SPACES.sub("", " ".join(texts))}


def _original(token: Token) -> str:
    return (token.original or token.piece).removeprefix(CONTINUATION)

"""The recipe `auto`: a size, steps and rates for the data, the speed of the machine and the hours.

The expected perplexity is a fit of runs of `tiny`, `mini` and `small` on English Wikipedia with the settings of
`recipes.of_size`: the loss of a word is E + A / N ** a + B / D ** b, with N the parameters of the layers and D the
words that are trained on, both in millions (`python -m benchmarks.scaling`, docs/time_to_quality.md).
"""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bert_tf.config import ConfigError, RunConfig
from bert_tf.config.base import load_json, save_json
from bert_tf.config.model import NAMED_SIZES
from bert_tf.data.manifest import Manifest, data_directories, open_data
from bert_tf.data.schema import MLM_LOGITS
from bert_tf.entry.amounts import in_time, plural
from bert_tf.models import BertBackbone, BertPretrainer
from bert_tf.pretraining.course import Course, held_out, held_out_split
from bert_tf.pretraining.recipes import of_size
from bert_tf.text.vocabulary import Vocabulary
from bert_tf.training.fit import fit
from bert_tf.training.logging.flops import step_flops
from bert_tf.training.losses import pretraining_objective
from bert_tf.training.output import PLAN_NAME
from bert_tf.training.run_spec import RunSpec, TrainingData

# The fit. The spread is that of runs left out of the fit: the largest error of their perplexity, rounded up.
FLOOR, OF_SIZE, SIZE_POWER, OF_WORDS, WORDS_POWER = 1.25, 0.377, 0.30, 4.699, 0.16
SPREAD = 0.1
# Most words, in millions, of the runs of the fit.
MEASURED_WORDS = 27.0
# Passes over the data that are worth as much as new data (arXiv 2305.16264).
FEW_PASSES = 4
# Passes over the data after which more passes gain little: a pass that repeats is worth exp(-1) of a first one after so
# many (arXiv 2305.16264 has this form, and finds little gain beyond about 16 passes).
_PASSES = 16
# Most and fewest steps of a timing, their most seconds, also as a share of the hours, and batches that count the pieces
# of words.
_TIMED_STEPS, _LEAST_TIMED, _TIMED_SECONDS, _TIMED_SHARE, _COUNTED = 12, 3, 20.0, 0.02, 40
# Fewest steps of a run.
_LEAST = 8


@dataclass(frozen=True)
class Candidate:
    """A size with the steps that fit into the time.

    Args:
        size: name of the size.
        run: configuration of the run.
        seconds: seconds of a step.
        passes: passes over the training examples.
        words: words of all batches, in millions.
        perplexity: expected perplexity of the held-out masked pieces.
    """

    size: str
    run: RunConfig
    seconds: float
    passes: float
    words: float
    perplexity: float


@dataclass(frozen=True)
class Plan:
    """The sizes that were compared; the first one has the lowest expected perplexity.

    Args:
        hours: hours that the run may take.
        candidates: all sizes that can be trained in the time.
    """

    hours: float
    candidates: Sequence[Candidate]

    @property
    def best(self) -> Candidate:
        """The size with the lowest expected perplexity."""
        return self.candidates[0]

    def lines(self) -> Iterator[str]:
        """Yields the plan in words."""
        yield f"plan: sizes in {in_time(3600 * self.hours)}; perplexities are a fit of English Wikipedia"
        for candidate in self.candidates:
            steps, seconds = plural(candidate.run.training.steps, "step"), candidate.seconds
            low, high = candidate.perplexity / (1 + SPREAD), candidate.perplexity * (1 + SPREAD)
            is_beyond = candidate.words > MEASURED_WORDS or candidate.passes > FEW_PASSES
            beyond = ", beyond the runs of the fit" if is_beyond else ""
            yield (
                f"{'->' if candidate is self.best else '  '} {candidate.size}: {steps} of "
                f"{f'{seconds:.1f} s' if seconds >= 1 else f'{1e3 * seconds:.0f} ms'}, {candidate.passes:.2g} passes, "
                f"perplexity {candidate.perplexity:.0f} ({low:.0f} to {high:.0f}{beyond})"
            )
        if len(self.candidates) > 1:
            yield f"choose another size with `--model`, such as `--model {self.candidates[1].size}`"


def expected_perplexity(layer_parameters: float, words: float, pieces_per_word: float) -> float:
    """Returns the perplexity of held-out masked pieces that the fit expects.

    Args:
        layer_parameters: parameters of the layers, in millions.
        words: words of all batches, in millions; see `worth`.
        pieces_per_word: pieces of a word, by which the loss of a word is divided.

    Example:
        >>> from bert_tf.pretraining.plan import expected_perplexity
        >>> round(expected_perplexity(3.2, 24, pieces_per_word=1.16))
        42
    """
    loss = FLOOR + OF_SIZE / layer_parameters**SIZE_POWER + OF_WORDS / words**WORDS_POWER
    return math.exp(loss / pieces_per_word)


def worth(words: float, unique: float) -> float:
    """Returns the number of different words that are worth as much as `words` words of a corpus of `unique` words.

    Example:
        >>> from bert_tf.pretraining.plan import worth
        >>> [round(worth(words, unique=10)) for words in (5, 10, 20, 1000)]
        [5, 10, 20, 170]
    """
    repeated = max(0.0, words / unique - 1)
    return min(words, unique) + unique * _PASSES * (1 - math.exp(-repeated / _PASSES))


def make_plan(
    data: str | Path, hours: float, sizes: Sequence[str] = tuple(NAMED_SIZES), strategy: str = "none"
) -> Plan:
    """Compares sizes for the data, and times steps on this machine.

    Args:
        data: output directory of `bert-tf data`. Of two lengths, the shorter one is planned with.
        hours: hours that the run may take.
        sizes: names of the sizes to compare.
        strategy: distribution strategy, on one machine.

    Returns:
        The plan.

    Raises:
        ConfigError: if the masks of the data are static, or not even the first size can be trained in the time.

    Example:
        >>> from bert_tf.pretraining.plan import make_plan
        >>> make_plan("data", hours=0.01, sizes=["tiny"]).best.size
        'tiny'
    """
    if hours <= 0:
        raise ConfigError(f"`--hours` must be positive. Received: {hours}")
    folder = (data_directories(data) or [Path(data)])[0]
    manifest, vocabulary = open_data(folder)
    if manifest.config.masking == "static":
        raise ConfigError(
            f"{folder}: the recipe `auto` needs data with dynamic masks. Received: static. Run `bert-tf data --masking "
            "dynamic`."
        )
    pieces, length = _pieces_per_word(folder, manifest, vocabulary), manifest.config.max_seq_length
    rates: dict[str, float] = {}
    # Larger sizes have larger products, which are faster. A size that takes long has the rate of the one before.
    limit = min(_TIMED_SECONDS, _TIMED_SHARE * 3600 * hours)
    for size in sizes:
        rate = next(reversed(rates.values()), 0.0)
        expected = _flops(manifest, of_size(size, 1, manifest.vocabulary_size, length)) / rate if rate else 0.0
        if _LEAST * expected > 3600 * hours:
            break
        if _LEAST_TIMED * expected <= limit:
            print(f"plan: timing steps of {size}", file=sys.stderr, flush=True)
            steps = int(np.clip(limit / expected, _LEAST_TIMED, _TIMED_STEPS)) if expected else _TIMED_STEPS
            rate = _timed(folder, manifest, size, strategy, steps)
        rates[size] = rate
    planned = _planned(manifest, hours, strategy, pieces, rates)
    if not planned:
        raise ConfigError(
            f"`--hours` must leave time for {_LEAST} steps of `{sizes[0]}` at least. Received: {hours}. Choose "
            "more hours."
        )
    return Plan(hours, planned)


def _planned(
    manifest: Manifest, hours: float, strategy: str, pieces_per_word: float, rates: dict[str, float]
) -> list[Candidate]:
    """Returns the sizes that can be trained, best first; `rates` are operations per second."""
    config, vocabulary_size = manifest.config, manifest.vocabulary_size
    found = []
    for size in rates:
        seconds = _flops(manifest, of_size(size, 1, vocabulary_size, config.max_seq_length)) / rates[size]
        # The batches of eight evaluations take a third of a step each.
        steps = int(3600 * hours / seconds) - 8 * 20 // 3
        if steps < _LEAST:
            continue
        run = of_size(size, steps, vocabulary_size, config.max_seq_length)
        run = replace(run, training=replace(run.training, strategy=strategy))
        rows = steps * run.training.largest_batch
        per_row = config.max_seq_length * _fill(manifest) / pieces_per_word / 1e6
        words, unique = rows * per_row, manifest.examples("train") * per_row
        layers, width = NAMED_SIZES[size]
        expected = expected_perplexity(12 * layers * width**2 / 1e6, worth(words, unique), pieces_per_word)
        found.append(Candidate(size, run, seconds, rows / manifest.examples("train"), words, expected))
    return sorted(found, key=lambda candidate: candidate.perplexity)


def _flops(manifest: Manifest, run: RunConfig) -> float:
    config = manifest.config
    predictions = config.most_predictions(max(run.training.masked_lm_shares or (config.masked_lm_prob,)))
    return step_flops(run.model, run.training.largest_batch, config.max_seq_length, predictions)


def _timed(folder: Path, manifest: Manifest, size: str, strategy: str, steps: int) -> float:
    """Returns the operations per second in some steps of a size."""
    run = of_size(size, steps, manifest.vocabulary_size, manifest.config.max_seq_length)
    training = replace(run.training, log_every=steps, checkpoint_every=steps, evaluate_every=0, strategy=strategy)
    run = replace(run, training=training)
    objective = pretraining_objective("mlm", training.nsp_weight if manifest.config.next_sentence else 0.0)
    course = Course([(folder, manifest)], run, objective)

    def build() -> BertPretrainer:
        return BertPretrainer(BertBackbone(run.model), next_sentence=manifest.config.next_sentence)

    spec = RunSpec(build, TrainingData(course.batches, takes_share=True), objective=objective)
    with tempfile.TemporaryDirectory() as output, contextlib.redirect_stderr(io.StringIO()):
        result = fit(spec, training, output)
    tokens = training.largest_batch * manifest.config.max_seq_length * _fill(manifest)
    return _flops(manifest, run) * result.tokens_per_second / tokens


def _fill(manifest: Manifest) -> float:
    # Manifests of former versions do not have it.
    return manifest.fill or 1.0


def _pieces_per_word(folder: Path, manifest: Manifest, vocabulary: Vocabulary) -> float:
    """Returns the pieces of a word in held-out examples, or in those of the training."""
    inside = counted = 0.0
    for _, targets, weights in itertools.islice(held_out(folder, held_out_split(manifest) or "train", 32), _COUNTED):
        ids = np.asarray(targets[MLM_LOGITS])[np.asarray(weights[MLM_LOGITS]) > 0]
        inside, counted = inside + vocabulary.is_continuation[ids].sum(), counted + len(ids)
    return 1 / (1 - min(0.9, inside / counted))


def planned_run(output: Path, data: str | Path, hours: float, sizes: Sequence[str], strategy: str) -> RunConfig:
    """Returns the configuration of a plan; that of a run that began is kept in its output directory.

    Args:
        output: output directory of the run.
        data: output directory of `bert-tf data`.
        hours: hours that the run may take.
        sizes: names of the sizes to compare.
        strategy: distribution strategy.
    """
    path = output / PLAN_NAME
    if path.exists():
        print(
            f"plan: that of {path}; --hours and --model have no effect on a run that began", file=sys.stderr, flush=True
        )
        return load_json(RunConfig, path)
    plan = make_plan(data, hours, sizes, strategy)
    print("\n".join(plan.lines()), file=sys.stderr, flush=True)
    output.mkdir(parents=True, exist_ok=True)
    save_json(plan.best.run, path)
    return plan.best.run

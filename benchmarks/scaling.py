"""`python -m benchmarks.scaling`: fits the perplexity of the recipe `auto` to the runs of `RUNS`.

The loss of a word is E + A / N ** a + B / D ** b, with N the parameters of the layers and D the words of all batches,
both in millions (the form of arXiv 2203.15556). The loss of a word is that of a piece, times the pieces of a word, so
that vocabularies can be compared. Prints the fit, the perplexities that it expects, and those of each run by a fit of
the other runs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from benchmarks import measure
from bert_tf.config.model import NAMED_SIZES

# Floors and powers that are tried.
_FLOORS, _SIZE_POWERS, _WORD_POWERS = np.arange(0.5, 2.6, 0.25), np.arange(0.05, 0.6, 0.05), np.arange(0.1, 1.0, 0.02)


@dataclass(frozen=True)
class Run:
    """A run with the settings of `recipes.of_size`, to the end of its schedule, on English Wikipedia.

    Args:
        size: name of the size.
        steps: steps of 64 examples of 64 tokens.
        pieces: tokens of a step without padding.
        pieces_per_word: pieces of a word in held-out examples.
        perplexity: perplexity of held-out masked pieces.
    """

    size: str
    steps: int
    pieces: float
    pieces_per_word: float
    perplexity: float

    @property
    def layers(self) -> float:
        """Parameters of the layers, in millions."""
        layers, width = NAMED_SIZES[self.size]
        return 12 * layers * width**2 / 1e6

    @property
    def words(self) -> float:
        """Words of all batches, in millions."""
        return self.steps * self.pieces / self.pieces_per_word / 1e6


# Tokens of a step and pieces of a word with 16,000 and with 8,000 pieces.
_16, _8 = (3963.0, 1.163), (3983.5, 1.280)
# `benchmarks.sweep` on an H200, 2026-11-26, 2,560 held-out examples; the last one `bert-tf pretrain`, 1,280 examples.
# The runs of `mini` are means of three seeds for 7,000 steps. `small` has `matrix_learning_rate` = 0.004 for 3,500
# steps.
RUNS = (
    Run("tiny", 2000, *_16, 87.7),
    Run("tiny", 8000, *_16, 48.96),
    Run("mini", 1000, *_16, 103.8),
    Run("mini", 7000, *_16, 41.45),
    Run("small", 1000, *_16, 92.8),
    Run("small", 3500, *_16, 52.3),
    Run("tiny", 3400, *_8, 48.3),
)


@dataclass(frozen=True)
class Law:
    """A fit: floor E, factors A and B, powers a and b."""

    floor: float
    of_size: float
    size_power: float
    of_words: float
    words_power: float

    def perplexity(self, run: Run) -> float:
        """Returns the perplexity that is expected of a run."""
        loss = self.floor + self.of_size / run.layers**self.size_power + self.of_words / run.words**self.words_power
        return math.exp(loss / run.pieces_per_word)


def fit(runs: Sequence[Run]) -> Law:
    """Returns the fit of least squares to the losses of words, with factors of at least 0."""
    losses = np.array([math.log(run.perplexity) * run.pieces_per_word for run in runs])
    layers, words = (np.array([getattr(run, name) for run in runs]) for name in ("layers", "words"))
    found = []
    for floor, a, b in itertools.product(_FLOORS, _SIZE_POWERS, _WORD_POWERS):
        factors, error = nnls(np.stack([layers**-a, words**-b], axis=1), losses - floor)
        found.append((error, (floor, factors[0], a, factors[1], b)))
    return Law(*map(float, min(found)[1]))


def main() -> None:
    """Prints the fit and its errors."""
    measure.parser(__doc__).parse_args()
    law = fit(RUNS)
    print(", ".join(f"{name} {value:.3f}" for name, value in vars(law).items()))
    print("| size | steps | million words | perplexity | fit | fit of the other runs |\n|---|---|---|---|---|---|")
    for run in RUNS:
        others = fit([other for other in RUNS if other is not run])
        print(
            f"| {run.size} | {run.steps:,} | {run.words:.1f} | {run.perplexity:.1f} | {law.perplexity(run):.1f} "
            f"| {others.perplexity(run):.1f} |"
        )


if __name__ == "__main__":
    main()

"""An evaluation and what is shown beside its figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bert_tf.text.vocabulary import Vocabulary
from bert_tf.training.evaluation.baselines import Baseline, remarks_on
from bert_tf.training.evaluation.mask_samples import Batch, FilledExample, Model, fill_masks


@dataclass(frozen=True)
class Evaluation:
    """What came of an evaluation.

    Args:
        figures: on held-out data, by name.
        expected: what to expect of them.
        filled: held-out examples with what the model says to their masks.
    """

    figures: dict[str, float]
    expected: Baseline = field(default_factory=Baseline)
    filled: tuple[FilledExample, ...] = ()


@dataclass(frozen=True)
class EvaluationContext:
    """What to show beside the figures of every evaluation.

    Args:
        vocabulary: of the data.
        chance: gives the figures of the best constant guess on the held-out data that fit the training batch of a given
            number; it stops where its second argument gives true.
        published: figures after full training of the nearest size of model, and their source.
        warmup_steps: steps of the warm-up.
        examples: gives the held-out examples to show, of the length of the training batch of a given number, unpacked;
            None shows none.
    """

    vocabulary: Vocabulary
    chance: Callable[[int, Callable[[], bool]], Mapping[str, float]]
    published: tuple[Mapping[str, float], str]
    warmup_steps: int
    examples: Callable[[int], Batch] | None = None

    def of(self, model: Model, batch: int, figures: dict[str, float], stop: Callable[[], bool]) -> Evaluation:
        """Returns the evaluation of `model` after a training batch; no more than its figures where it is stopped.

        Args:
            model: gives `mlm_logits` (B, P, V).
            batch: number of the training batch, counted from 0.
            figures: on the held-out data.
            stop: whether to give way, asked as time goes by.
        """
        if stop():
            return Evaluation(figures)
        chance, (published, source) = self.chance(batch, stop), self.published
        if stop():
            return Evaluation(figures)
        published = {name: value for name, value in published.items() if name in figures}
        remarks = remarks_on(figures, chance, published, warmed_up=batch >= self.warmup_steps)
        filled = fill_masks(model, self.examples(batch), self.vocabulary) if self.examples else ()
        return Evaluation(figures, Baseline(chance, published, source, remarks), filled)

"""Evaluations and their context: baselines and sample predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bert_tf.data.input.dataset import Batch
from bert_tf.text.vocabulary import Vocabulary
from bert_tf.training.evaluation.baselines import Baseline, remarks_on
from bert_tf.training.evaluation.mask_samples import FilledExample, Model, fill_masks


@dataclass(frozen=True)
class Evaluation:
    """Metrics on held-out data by name, their baselines, and held-out examples with predictions for their masks."""

    figures: dict[str, float]
    expected: Baseline = field(default_factory=Baseline)
    filled: tuple[FilledExample, ...] = ()


@dataclass(frozen=True)
class EvaluationContext:
    """Baselines and sample predictions to report with every evaluation.

    `chance` returns the metrics of the best constant guess on the held-out data for a training batch number; it stops
    early when its second argument returns True. `published` are metrics after full training of the nearest model size,
    and their source. `examples` returns the held-out examples to show, unpacked and of the same length as a training
    batch number; None shows none.
    """

    vocabulary: Vocabulary
    chance: Callable[[int, Callable[[], bool]], Mapping[str, float]]
    published: tuple[Mapping[str, float], str]
    warmup_steps: int
    examples: Callable[[int], Batch] | None = None

    def of(self, model: Model, batch: int, figures: dict[str, float], stop: Callable[[], bool]) -> Evaluation:
        """Returns the evaluation after a training batch, counted from 0; the metrics alone once `stop` returns True."""
        if stop():
            return Evaluation(figures)
        chance, (published, source) = self.chance(batch, stop), self.published
        if stop():
            return Evaluation(figures)
        published = {name: value for name, value in published.items() if name in figures}
        remarks = remarks_on(figures, chance, published, warmed_up=batch >= self.warmup_steps)
        filled = fill_masks(model, self.examples(batch), self.vocabulary) if self.examples else ()
        return Evaluation(figures, Baseline(chance, published, source, remarks), filled)

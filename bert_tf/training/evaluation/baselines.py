"""What figures of pre-training to expect: from those of a constant guess to those published after full training.

Shape legend: B batch, P predictions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from bert_tf.config import BertConfig
from bert_tf.data.schema import MLM_LOGITS, NSP_LOGITS
from bert_tf.training.evaluation.mask_samples import Batch

# arXiv 1810.04805, Table 6: (layers, width, heads) and the perplexity of masked pieces of held-out training data.
_PERPLEXITIES = {
    (3, 768, 12): 5.84,
    (6, 768, 3): 5.24,
    (6, 768, 12): 4.68,
    (12, 768, 12): 3.99,
    (12, 1024, 16): 3.54,
    (24, 1024, 16): 3.23,
}
# The same, section 3.1: 97 to 98 % of next sentences.
_NEXT_SENTENCES = 0.97
_NEXT_SENTENCES_ABOVE = 0.98
# Metrics are sums in float32.
_ROUNDING = 1e-4


@dataclass(frozen=True)
class Baseline:
    """What to expect of the figures of an evaluation.

    Args:
        chance: figures, by name, of the best constant guess on the evaluated data.
        published: figures, by name, after full training of the size of model that `source` names.
        source: where they were published; empty where nothing was.
        remarks: what is to be said of the figures there are.
    """

    chance: Mapping[str, float] = field(default_factory=dict)
    published: Mapping[str, float] = field(default_factory=dict)
    source: str = ""
    remarks: tuple[str, ...] = ()


def chance_figures(batches: Iterable[Batch]) -> dict[str, float]:
    """Returns the figures of the best constant guess.

    Of masked pieces that is: the same distribution everywhere, that of the pieces to be predicted; of next sentences,
    the shares of the two labels. It knows the very data it is measured on, and is hard to beat where these are few.

    Args:
        batches: inputs, targets and weights; of the targets int (B, P) and (B,), or any other shapes.

    Returns:
        `mlm_loss` (nats), `mlm_accuracy`, `mlm_perplexity`, `nsp_loss`, `nsp_accuracy` and `loss`, as an evaluation has
        them; of an output whose targets all weigh nothing there are none.
    """
    totals: dict[str, np.ndarray] = {MLM_LOGITS: np.zeros(0), NSP_LOGITS: np.zeros(0)}
    for _, targets, weights in batches:
        for output, total in totals.items():
            more = np.bincount(np.ravel(targets[output]), np.ravel(weights[output]), minlength=len(total))
            more[: len(total)] += total
            totals[output] = more
    figures: dict[str, float] = {}
    losses = []
    for prefix, output in (("mlm", MLM_LOGITS), ("nsp", NSP_LOGITS)):
        counts = totals[output][totals[output] > 0]
        if len(counts):
            shares = counts / counts.sum()
            losses.append(float(-(shares * np.log(shares)).sum()))
            figures[f"{prefix}_loss"] = losses[-1]
            figures[f"{prefix}_accuracy"] = float(shares.max())
    if "mlm_loss" in figures:
        figures["mlm_perplexity"] = math.exp(figures["mlm_loss"])
    return figures | ({"loss": sum(losses)} if losses else {})


def published_figures(model: BertConfig, mask_unit: str) -> tuple[dict[str, float], str]:
    """Returns what was published of the nearest size of model, and where; {} and "" where nothing was.

    Args:
        model: the model.
        mask_unit: what is masked as a whole, as in the configuration of the data.
    """
    if model.attention != "bidirectional":
        return {}, ""
    figures = {"nsp_accuracy": _NEXT_SENTENCES}
    sources = ["next sentences of base and large, section 3.1"]
    if mask_unit == "piece":
        layers, width, heads = nearest = min(_PERPLEXITIES, key=lambda size: _distance(model, size))
        perplexity = _PERPLEXITIES[nearest]
        figures |= {"mlm_loss": math.log(perplexity), "mlm_perplexity": perplexity}
        sources.insert(0, f"masked pieces with {layers} layers of {width}, {heads} heads, Table 6")
    return figures, f"arXiv 1810.04805: {'; '.join(sources)}"


def remarks_on(
    figures: Mapping[str, float], chance: Mapping[str, float], published: Mapping[str, float], warmed_up: bool
) -> tuple[str, ...]:
    """Returns what is to be said of figures outside of what is to be expected.

    Args:
        figures: of an evaluation.
        chance: of the best constant guess on the same data.
        published: after full training.
        warmed_up: whether the warm-up is over; before that, chance is no surprise.
    """
    remarks = []
    if warmed_up and _is_no_better("mlm", figures, chance):
        remarks.append(
            "masked pieces: no better than always guessing the most frequent piece "
            f"({figures['mlm_accuracy']:.2%} right against {chance['mlm_accuracy']:.2%})"
        )
    if warmed_up and _is_no_better("nsp", figures, chance):
        remarks.append(
            "next sentences: no better than always giving the same answer "
            f"({figures['nsp_accuracy']:.2%} right against {chance['nsp_accuracy']:.2%})"
        )
    perplexity, reached = figures.get("mlm_perplexity", 0.0), published.get("mlm_perplexity", math.inf)
    if figures.get("nsp_accuracy", 0.0) > _NEXT_SENTENCES_ABOVE and reached < perplexity:
        remarks.append(
            f"next sentences: {figures['nsp_accuracy']:.2%} right is more than the paper reports after full training, "
            f"and masked pieces are not as far (perplexity {perplexity:,.2f} against {reached:.2f}): the label may "
            "show without reading, for example because documents repeat"
        )
    if math.isfinite(reached) and perplexity < reached:
        remarks.append(
            f"masked pieces: a perplexity of {perplexity:.2f} is below the published {reached:.2f}; the text may be "
            "easier or the vocabulary smaller, or held-out documents stand in the training data too"
        )
    return tuple(remarks)


def _is_no_better(prefix: str, figures: Mapping[str, float], chance: Mapping[str, float]) -> bool:
    name = f"{prefix}_accuracy"
    return name in figures and name in chance and figures[name] <= chance[name] * (1 + _ROUNDING)


def _distance(model: BertConfig, size: tuple[int, int, int]) -> tuple[float, int]:
    """Returns how far two sizes are apart: in the logarithm of the weights of all layers, then in heads."""
    layers, width, heads = size
    weights = math.log(model.num_layers * model.hidden_dim**2 / (layers * width**2))
    return abs(weights), abs(model.num_heads - heads)

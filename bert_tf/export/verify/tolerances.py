"""Bounds on the differences between two computations of one model due to rounding.

Two processors, or two orders of summation, have outputs that differ by rounding errors. The bound is derived from the
arithmetic, not from measured differences:

- Each value that a layer stores is rounded. The relative error is spread evenly over -u to u, where u is the unit
  roundoff (2^-24 in float32, 2^-8 in bfloat16): its variance is u^2 / 3. A sum of n terms in float32 that is computed
  in blocks of 8, the width of a vector register, has n / 8 sequential roundings, which on average act on half the sum.
- Functions are computed in float32 (exp, tanh or erf, reciprocal square root). They are approximate, and exp turns the
  absolute error of a score, whose size may be 16 or more, into a relative one: each function has an error of 16 u. In
  bfloat16 this is negligible compared with the errors of stored values.
- Rounding errors are independent, so their variances add up (Higham and Mary, "A New Approach to Probabilistic Rounding
  Error Analysis", SIAM J. Sci. Comput. 41, 2019). The difference of two computations has twice the variance of one. The
  ratio of the largest error to the largest value is that of a typical error to a typical value.
- A layer preserves the size of the errors from the layers below, because it normalizes the sum of its input and its
  result. Errors of layers are added as if all had the same sign: they grow linearly with depth.

The bound is relative to the largest value of an output at tokens that are not padding. Outputs of a tanh, which limits
values but not their errors, are bounded like hidden states. Outputs at [PAD] positions have no meaning and no bound.
"""

from __future__ import annotations

import math

import numpy as np

from bert_tf.config import BertConfig
from bert_tf.export.verify.comparison import Tensors

FLOAT32, BFLOAT16, INT8 = "float32", "bfloat16", "int8"

# Weights in int8 are multiplied in float32.
_UNIT_ROUNDOFF = {FLOAT32: 2.0**-24, INT8: 2.0**-24, BFLOAT16: 2.0**-8}
# Values that a layer stores in sequence: projections, scaled queries, scores, attention weights, weighted values,
# attention output, residual sum, normalization, hidden product, its activation, output product with residual sum,
# normalization.
_STORED = 12
# Products that a layer computes in sequence: projections, scores, weighted values, output, and two in the feed-forward
# network.
_PRODUCTS = 6
_VECTOR_WIDTH = 8
_FUNCTIONS, _FUNCTION_ERROR = 3, 16
# Largest absolute value among a few thousand standard normal values, such as normalized hidden states.
LARGEST_HIDDEN = 4.0


def relative_tolerance(precision: str, config: BertConfig) -> float:
    """Returns the bound on the difference of two computations, relative to the largest value of an output.

    Example:
    >>> from bert_tf.config import BertConfig
    >>> base = BertConfig(vocabulary_size=30522, hidden_dim=768, num_layers=12, num_heads=12, intermediate_dim=3072)
    >>> f"{relative_tolerance('float32', base):.1e}"
    '2.8e-05'
    """
    variance = float(_STORED)
    if precision != BFLOAT16:
        # Products in bfloat16 are summed in float32, with negligible errors compared with those of storing.
        variance += (
            _FUNCTIONS * _FUNCTION_ERROR**2
            + _PRODUCTS * max(config.hidden_dim, config.intermediate_dim) / _VECTOR_WIDTH / 2
        )
    return math.sqrt(2 * variance / 3) * _UNIT_ROUNDOFF[precision] * (config.num_layers + 1)


def largest(values: np.ndarray) -> float:
    """Returns the largest finite absolute value, at least 1, the size of normalized hidden states."""
    return float(np.max(np.abs(values), initial=1.0, where=np.isfinite(values)))


def probability_tolerance(probabilities: np.ndarray, score_error: float) -> np.ndarray:
    """Returns the bound on the difference of each float32 probability.

    If each score has an error of at most e, the logarithm of a softmax probability changes by at most 2e.
    """
    smallest = float(np.finfo(np.float32).tiny)
    return probabilities.astype(np.float64) * math.expm1(min(2 * score_error, 700.0)) + smallest


def is_tie(probabilities: np.ndarray, score_error: float) -> np.ndarray:
    """Returns a bool (...), True if rounding may swap the two largest of the probabilities (..., C).

    `score_error` is the largest error of the logarithm of a probability, up to a constant.
    """
    if probabilities.shape[-1] < 2:
        return np.zeros(probabilities.shape[:-1], bool)
    second, first = np.moveaxis(np.partition(probabilities.astype(np.float64), -2, axis=-1)[..., -2:], -1, 0)
    return close(first, second, score_error)


def close(larger: np.ndarray, smaller: np.ndarray, score_error: float) -> np.ndarray:
    """Returns True for pairs of probabilities that rounding may put in another order; the error is as in `is_tie`.

    A smaller probability of 0 marks a missing candidate, which is not close to any other.
    """
    return (smaller > 0) & (larger <= smaller * math.exp(min(2 * score_error, 700.0)))


def at_tokens(tolerance: float, padding_mask: np.ndarray, dimensions: int) -> np.ndarray:
    """Returns a tolerance for each token of an output of some rank, infinite where the mask (B, S) is 0."""
    by_token = np.where(padding_mask == 1, tolerance, np.inf)
    return by_token.reshape(padding_mask.shape + (1,) * (dimensions - 2))


def undecided(tolerances: Tensors, open_values: Tensors, outputs: Tensors) -> Tensors:
    """Returns tolerances with infinity for the values that depend on a tie, by broadcastable bool arrays."""
    return tolerances | {
        name: np.where(np.broadcast_to(is_open, outputs[name].shape), np.inf, tolerances[name])
        for name, is_open in open_values.items()
    }

"""Targets of the left-to-right language model: the token after each position.

Shape legend: B batch, S sequence.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def next_tokens(token_ids: Any, padding_mask: Any) -> tuple[Any, Any, Any]:
    """Returns positions, the tokens after them, and 1 if there is such a token; then 0.

    The first token of an example, [CLS], is no target. All others are, special tokens included.

    Args:
        token_ids: int32 (B, S), without masks.
        padding_mask: int32 (B, S), ones first.

    Returns:
        Three arrays, or tensors as the arguments, int32 (B, S - 1).
    """
    follows = padding_mask[:, 1:]
    return np.arange(follows.shape[1], dtype=np.int32) * follows, token_ids[:, 1:] * follows, follows

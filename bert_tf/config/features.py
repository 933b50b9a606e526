"""Combinations of encoder layers used as features (arXiv 1810.04805, Table 7)."""

from __future__ import annotations

from dataclasses import dataclass

from bert_tf.config.errors import ConfigError

# Layer name of the embeddings; the other layers are `layer_1` to `layer_L`.
EMBEDDINGS = "embeddings"
ONE, CONCATENATED, WEIGHTED = "one", "concat", "weighted_sum"
# The six rows of Table 7: how the layers are combined, and which of `layer_names`.
COMBINATIONS: dict[str, tuple[str, slice]] = {
    EMBEDDINGS: (ONE, slice(0, 1)),
    "second_to_last": (ONE, slice(-2, -1)),
    "last": (ONE, slice(-1, None)),
    "weighted_sum_last_4": (WEIGHTED, slice(-4, None)),
    "concat_last_4": (CONCATENATED, slice(-4, None)),
    "weighted_sum_all": (WEIGHTED, slice(1, None)),
}
# Minimum number of transformer layers; 1 for all other combinations.
_LEAST_LAYERS = {"second_to_last": 2, "weighted_sum_last_4": 4, "concat_last_4": 4}


@dataclass(frozen=True)
class Combination:
    """A combination of encoder layers.

    Args:
        name: key of `COMBINATIONS`, or the name of a single layer.
        layers: layer names as in `BertBackbone.layer_outputs`.
        way: how the layers are combined: `one`, `concat` or `weighted_sum`.
    """

    name: str
    layers: tuple[str, ...]
    way: str


def layer_names(num_layers: int) -> tuple[str, ...]:
    """Returns the layer names of an encoder with `num_layers` layers: `embeddings`, `layer_1` and so on."""
    return (EMBEDDINGS, *(f"layer_{number}" for number in range(1, num_layers + 1)))


def combination(name: str, num_layers: int) -> Combination:
    """Returns the layer combination called `name`.

    Args:
        name: key of `COMBINATIONS`, or the name of a single layer.
        num_layers: number of transformer layers in the encoder.

    Returns:
        The combination.

    Raises:
        ConfigError: for an unknown name, or if the encoder has too few layers.
    """
    names = layer_names(num_layers)
    if name in names:
        return Combination(name, (name,), ONE)
    if name not in COMBINATIONS:
        raise ConfigError(
            f"features must be one of {', '.join(COMBINATIONS)}, or a single layer: {names[0]}, {names[1]} to "
            f"{names[-1]}. Received: {name!r}"
        )
    least = _LEAST_LAYERS.get(name, 1)
    if num_layers < least:
        raise ConfigError(
            f"the features {name} require an encoder with at least {least} layers. Received: {num_layers}"
        )
    way, chosen = COMBINATIONS[name]
    return Combination(name, names[chosen], way)

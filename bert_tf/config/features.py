"""Which of an encoder's layers become features, and how they are put together (arXiv 1810.04805, Table 7)."""

from __future__ import annotations

from dataclasses import dataclass

from bert_tf.config.base import ConfigError

# Name of the embeddings among the layers; the others are `layer_1` to `layer_L`.
EMBEDDINGS = "embeddings"
ONE, CONCATENATED, WEIGHTED = "one", "concat", "weighted_sum"
# The six rows of Table 7: how layers are put together, and which of `layer_names`.
COMBINATIONS: dict[str, tuple[str, slice]] = {
    EMBEDDINGS: (ONE, slice(0, 1)),
    "second_to_last": (ONE, slice(-2, -1)),
    "last": (ONE, slice(-1, None)),
    "weighted_sum_last_4": (WEIGHTED, slice(-4, None)),
    "concat_last_4": (CONCATENATED, slice(-4, None)),
    "weighted_sum_all": (WEIGHTED, slice(1, None)),
}
# Transformer layers that a combination needs; the others are content with one.
_LEAST_LAYERS = {"second_to_last": 2, "weighted_sum_last_4": 4, "concat_last_4": 4}


@dataclass(frozen=True)
class Combination:
    """Layers of an encoder put together.

    Args:
        name: of `COMBINATIONS`, or of one layer.
        layers: names, as `BertBackbone.layer_outputs` has them.
        way: `one`, `concat` or `weighted_sum`.
    """

    name: str
    layers: tuple[str, ...]
    way: str


def layer_names(num_layers: int) -> tuple[str, ...]:
    """Returns the names of all layers of an encoder of `num_layers`: `embeddings`, `layer_1` and so on."""
    return (EMBEDDINGS, *(f"layer_{number}" for number in range(1, num_layers + 1)))


def combination(name: str, num_layers: int) -> Combination:
    """Returns the combination of a name.

    Args:
        name: of `COMBINATIONS`, or of one layer.
        num_layers: transformer layers of the encoder.

    Raises:
        ConfigError: for another name, or an encoder of too few layers.
    """
    names = layer_names(num_layers)
    if name in names:
        return Combination(name, (name,), ONE)
    if name not in COMBINATIONS:
        raise ConfigError(
            f"features must be one of {', '.join(COMBINATIONS)}, or one layer from {names[0]}, {names[1]} to "
            f"{names[-1]}. Received: {name!r}"
        )
    least = _LEAST_LAYERS.get(name, 1)
    if num_layers < least:
        raise ConfigError(f"the features {name} need an encoder of at least {least} layers. Received: {num_layers}")
    way, chosen = COMBINATIONS[name]
    return Combination(name, names[chosen], way)

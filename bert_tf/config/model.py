"""Architecture of a BERT encoder: fields, named sizes, and the field names of the original JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bert_tf.config.base import from_dict, read_json_object
from bert_tf.config.errors import ConfigError, check_fields, did_you_mean

# (num_layers, hidden_dim) of the named sizes: base and large from arXiv 1810.04805, section 3, the smaller ones
# from arXiv 1908.08962. The grid L{2..12} x H{128..768} has names such as `L4_H256`.
NAMED_SIZES: dict[str, tuple[int, int]] = {
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
    "large": (24, 1024),
}
# With the body `modern`: BERT's small sizes, and the released ones of arXiv 2412.13663, table 4, with their fields.
_RELEASED: dict[str, dict[str, Any]] = {
    "modern_base": {"intermediate_dim": 1152, "num_segments": 0, "max_sequence_length": 8192},
    "modern_large": {"intermediate_dim": 2624, "num_segments": 0, "max_sequence_length": 8192},
}
MODERN_SIZES: dict[str, tuple[int, int]] = {
    **{f"modern_{name}": size for name, size in NAMED_SIZES.items() if name not in ("base", "large")},
    "modern_base": (22, 768),
    "modern_large": (28, 1024),
}
SIZES: dict[str, tuple[int, int]] = (
    NAMED_SIZES
    | MODERN_SIZES
    | {f"L{layers}_H{hidden}": (layers, hidden) for layers in (2, 4, 6, 8, 10, 12) for hidden in (128, 256, 512, 768)}
)
# The largest published BERT has 48 layers and 3.9e9 parameters (arXiv 1909.08053). The limits are more than ten times
# larger and reject damaged or malicious files before memory is allocated.
MAX_LAYERS, MAX_PARAMETERS = 1000, 10**11
_LARGEST_FLOAT32 = 3.4028235e38
# Ways to pool the outputs of the tokens of a row to one vector.
POOLINGS = ("first", "mean", "max", "last")
ACTIVATIONS = ("gelu", "gelu_approximate", "relu", "tanh")

# Values of the fields that a body determines unless they are set. `modern` is that of ModernBERT (arXiv 2412.13663),
# with the defaults of transformers' `ModernBertConfig`.
BODIES: dict[str, dict[str, Any]] = {
    "bert": {
        "activation": "gelu_approximate",
        "layer_norm_epsilon": 1e-12,
        "positions": "learned",
        "normalization_order": "post",
        "feed_forward": "dense",
        "biases": True,
        "normalization_bias": True,
        "embedding_norm": True,
        "final_norm": False,
        "global_attention_every": 1,
        "local_attention": 128,
        "rotary_theta": 10_000.0,
        "local_rotary_theta": 10_000.0,
    },
    "modern": {
        "activation": "gelu",
        "layer_norm_epsilon": 1e-5,
        "positions": "rotary",
        "normalization_order": "pre",
        "feed_forward": "gated",
        "biases": False,
        "normalization_bias": False,
        "embedding_norm": True,
        "final_norm": True,
        "global_attention_every": 3,
        "local_attention": 128,
        "rotary_theta": 160_000.0,
        "local_rotary_theta": 10_000.0,
    },
}

# Fields of a body that BERT has with any value, or does not use.
_UNUSED_BY_BERT = ("activation", "layer_norm_epsilon", "local_attention", "rotary_theta", "local_rotary_theta")

# Field names of the original bert_config.json, whose "gelu" is the tanh approximation.
_ORIGINAL_NAMES = {
    "vocab_size": "vocabulary_size",
    "hidden_size": "hidden_dim",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "intermediate_size": "intermediate_dim",
    "max_position_embeddings": "max_sequence_length",
    "type_vocab_size": "num_segments",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "hidden_act": "activation",
    "layer_norm_eps": "layer_norm_epsilon",
    "initializer_range": "initializer_range",
}


_SIZES = ("vocabulary_size", "hidden_dim", "num_layers", "num_heads", "intermediate_dim", "max_sequence_length",
          "global_attention_every", "local_attention")  # fmt: skip
_CHOICES = {
    "body": tuple(BODIES),
    "activation": ACTIVATIONS,
    "mlm_activation": (*ACTIVATIONS, None),
    "attention": ("bidirectional", "left_to_right"),
    "positions": ("learned", "rotary"),
    "normalization_order": ("post", "pre"),
    "feed_forward": ("dense", "gated"),
}


def _of_body() -> Any:
    """Returns a field whose value is the body's unless it is set."""
    return field(default=None)


def gated_width(hidden_dim: int) -> int:
    """Returns the width of a gated feed-forward layer that costs as much as a dense one of 4 H: 8 H / 3, up to 64."""
    return -(-8 * hidden_dim // (3 * 64)) * 64


@dataclass(frozen=True)
class BertConfig:
    """Architecture of a BERT encoder (arXiv 1810.04805, section 3).

    Args:
        vocabulary_size: number of word pieces.
        hidden_dim: hidden size H, the output width of every layer.
        num_layers: number L of transformer layers.
        num_heads: number of attention heads; must divide `hidden_dim`.
        intermediate_dim: width of the feed-forward layer; 4 H in the paper.
        max_sequence_length: number of learned positions, or longest input with rotary ones.
        num_segments: number of segment (token type) embeddings; 0 for none.
        dropout: dropout rate on embeddings, attention weights and sub-layer outputs.
        attention_dropout: dropout rate on attention weights; defaults to `dropout`.
        activation: `gelu_approximate` (tanh form of the original), `gelu` (erf), `relu` or `tanh`; defaults to the
            body's.
        layer_norm_epsilon: added to the variance in every layer normalization; positive; defaults to the body's.
        initializer_range: standard deviation of the truncated normal initializer; positive.
        attention: `bidirectional`, or `left_to_right`, in which a token sees only itself and earlier tokens (Table 5 of
            the paper).
        pooler: whether the encoder has a pooler, a projection of the first token's output used by text-level heads.
        mlm_activation: activation of the masked language model head; defaults to `activation`.
        mlm_layer_norm_epsilon: epsilon of the masked language model head; defaults to `layer_norm_epsilon`.
        body: `bert`, or `modern` for ModernBERT's encoder (arXiv 2412.13663). It determines the fields below, and
            activation and epsilon, unless they are set.
        positions: `learned` position embeddings, or `rotary` ones in queries and keys (arXiv 2104.09864).
        normalization_order: normalization after each residual connection (`post`), or before each sub-layer (`pre`).
        feed_forward: `dense`, or `gated` (arXiv 2002.05202): half of a projection to 2 F gates the other half.
        biases: whether attention and feed-forward have biases.
        normalization_bias: whether layer normalization has a bias, beta.
        embedding_norm: whether the embeddings are normalized.
        final_norm: whether the output of the last layer is normalized.
        global_attention_every: layers 1, 1 + n, 1 + 2 n, … see all tokens, the others a window; 1 for all layers.
        local_attention: tokens in the window of the other layers: half of them on each side.
        rotary_theta: base of the rotary angles in layers that see all tokens.
        local_rotary_theta: the same in the other layers.

    Raises:
        ConfigError: for a field out of range, more than `MAX_LAYERS` layers or more than `MAX_PARAMETERS` parameters.

    Example:
        >>> config = bert_tf.BertConfig.from_size("mini", vocabulary_size=8000)
        >>> config.num_layers, config.hidden_dim, config.num_parameters
        (4, 256, 5404928)
        >>> bert_tf.BertConfig.from_mapping({"hidden_size": 128, "num_attention_heads": 2}).hidden_dim
        128
    """

    vocabulary_size: int = 30522
    hidden_dim: int = 768
    num_layers: int = 12
    num_heads: int = 12
    intermediate_dim: int = 3072
    max_sequence_length: int = 512
    num_segments: int = 2
    dropout: float = 0.1
    activation: str = _of_body()
    layer_norm_epsilon: float = _of_body()
    initializer_range: float = 0.02
    attention: str = "bidirectional"
    attention_dropout: float | None = None
    pooler: bool = True
    mlm_activation: str | None = None
    mlm_layer_norm_epsilon: float | None = None
    body: str = "bert"
    positions: str = _of_body()
    normalization_order: str = _of_body()
    feed_forward: str = _of_body()
    biases: bool = _of_body()
    normalization_bias: bool = _of_body()
    embedding_norm: bool = _of_body()
    final_norm: bool = _of_body()
    global_attention_every: int = _of_body()
    local_attention: int = _of_body()
    rotary_theta: float = _of_body()
    local_rotary_theta: float = _of_body()

    def __post_init__(self) -> None:
        check_fields(self, ["body"], _CHOICES["body"].__contains__, f"must be one of {', '.join(BODIES)}")
        for name, value in BODIES[self.body].items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        check_fields(self, ["num_segments"], lambda value: value >= 0, "must not be negative")
        check_fields(self, _SIZES, lambda value: value >= 1, "must be at least 1")
        check_fields(self, _SIZES, lambda value: value <= MAX_PARAMETERS, f"must be at most {MAX_PARAMETERS:.0e}")
        self._check_size()
        if self.hidden_dim % self.num_heads:
            raise ConfigError(
                f"`hidden_dim` must be a multiple of `num_heads`. Received: {self.hidden_dim} and {self.num_heads}"
            )
        rates = ("dropout", "attention_dropout")
        check_fields(self, rates, lambda value: value is None or 0.0 <= value < 1.0, "must be in [0, 1)")
        check_fields(
            self,
            ("initializer_range", "layer_norm_epsilon", "mlm_layer_norm_epsilon", "rotary_theta", "local_rotary_theta"),
            lambda value: value is None or 0.0 < value <= _LARGEST_FLOAT32,
            "must be a positive number in the range of float32",
        )
        for name, known in _CHOICES.items():
            check_fields(self, [name], known.__contains__, f"must be one of {', '.join(map(str, known))}")
        if self.positions == "rotary" and self.hidden_dim // self.num_heads % 2:
            raise ConfigError(
                "`positions` = rotary needs heads of even width, `hidden_dim` / `num_heads`. "
                f"Received: {self.hidden_dim} / {self.num_heads}"
            )

    def with_changes(self, **changes: Any) -> BertConfig:
        """Returns a copy with other fields. With another body, fields that have the old body's value get the new one's.

        Args:
            **changes: values by field. With another kind of feed-forward layer and without `intermediate_dim`, a width
                of 4 H, or of a named size, becomes that of the new kind.
        """
        body = changes.get("body", self.body)
        values: dict[str, Any] = {}
        if body != self.body and body in BODIES:
            former = BODIES[self.body]
            values = {name: None for name in former if getattr(self, name) == former[name]}
        config = replace(self, **(values | changes))
        changed = config.feed_forward != self.feed_forward and "intermediate_dim" not in changes
        if changed and self.intermediate_dim == _default_width(self):
            config = replace(config, intermediate_dim=_default_width(config))
        return config

    def _check_size(self) -> None:
        check_fields(self, ["num_layers"], lambda value: value <= MAX_LAYERS, f"must be at most {MAX_LAYERS}")
        if self.num_parameters > MAX_PARAMETERS:
            received = ", ".join(f"`{name}` {getattr(self, name)}" for name in _SIZES if name != "num_heads")
            raise ConfigError(
                f"an encoder must have at most {MAX_PARAMETERS:.0e} parameters. "
                f"Received: {self.num_parameters:.3e} for {received}"
            )

    @property
    def num_parameters(self) -> int:
        """Number of parameters of the encoder, including the pooler if there is one."""
        hidden, inner = self.hidden_dim, self.intermediate_dim
        norm = hidden * (1 + self.normalization_bias)
        gates = 2 if self.feed_forward == "gated" else 1
        positions = self.max_sequence_length if self.positions == "learned" else 0
        embeddings = (self.vocabulary_size + positions + self.num_segments) * hidden + norm * self.embedding_norm
        # Per layer: four attention projections, the feed-forward network, two normalizations.
        layer = 4 * hidden**2 + (gates + 1) * hidden * inner + 2 * norm
        if self.biases:
            layer += 4 * hidden + gates * inner + hidden
        rest = norm * (self.final_norm - self.skips_first_norm) + (hidden * (hidden + 1) if self.pooler else 0)
        return embeddings + self.num_layers * layer + rest

    @property
    def skips_first_norm(self) -> bool:
        """True if the first layer has no normalization before attention, because the embeddings are normalized."""
        return self.normalization_order == "pre" and self.embedding_norm

    @property
    def heads_need_pooler(self) -> bool:
        """True if text-level heads read the pooler; those of `modern` transform the first token themselves."""
        return self.body != "modern"

    def sees_all(self, layer: int) -> bool:
        """Returns True if a layer, counted from 1, attends to all tokens instead of a window."""
        return (layer - 1) % self.global_attention_every == 0

    @property
    def most_segments(self) -> int:
        """Number of segments that an input may have; encoders without segment embeddings take pairs of texts too."""
        return self.num_segments or 2

    @property
    def differences_from_bert(self) -> str:
        """Options of the encoder that BERT's body does not have, such as `positions` = rotary; empty for none."""
        values = {name: value for name, value in BODIES["bert"].items() if name not in _UNUSED_BY_BERT}
        own = [f"`{name}` = {getattr(self, name)}" for name, value in values.items() if getattr(self, name) != value]
        own += [] if self.num_segments else ["`num_segments` = 0"]
        return ", ".join(own if self.body == "bert" else [f"`body` = {self.body}", *own])

    @property
    def objective(self) -> str:
        """Language model that pre-training with this attention trains: `mlm`, or `causal_lm` for left_to_right."""
        return "causal_lm" if self.attention == "left_to_right" else "mlm"

    @property
    def mlm_head(self) -> tuple[str, float]:
        """Activation and epsilon of the masked language model head."""
        epsilon = self.mlm_layer_norm_epsilon
        return self.mlm_activation or self.activation, self.layer_norm_epsilon if epsilon is None else epsilon

    @classmethod
    def from_size(cls, size: str, **fields: Any) -> BertConfig:
        """Builds the config of a named size.

        Args:
            size: key of `SIZES` (`tiny` … `large`, `modern_tiny` … `modern_large`, `L4_H256`).
            **fields: values for other fields, for example `vocabulary_size`.

        Returns:
            The config.

        Raises:
            ConfigError: for an unknown size.
        """
        if size not in SIZES:
            hint = did_you_mean(size, SIZES)
            raise ConfigError(f"unknown model size {size!r}{hint}. Known sizes: {', '.join(SIZES)}")
        layers, hidden = SIZES[size]
        shape: dict[str, Any] = {
            "num_layers": layers,
            "hidden_dim": hidden,
            "num_heads": hidden // 64,
            **({"body": "modern"} if size in MODERN_SIZES else {}),
            **_RELEASED.get(size, {}),
        }
        values = shape | fields
        if "intermediate_dim" in values:
            return cls(**values)
        config = cls(**values, intermediate_dim=1)
        return replace(config, intermediate_dim=_default_width(config))

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], source: str = "configuration") -> BertConfig:
        """Builds a config from a mapping with the names of this class or of the original `bert_config.json`.

        Args:
            mapping: field values by name.
            source: origin of the mapping, used in error messages.

        Returns:
            The config.

        Raises:
            ConfigError: for an unknown key or a duplicate field.
        """
        values = dict(mapping)
        rates = [values.get(name) for name in ("attention_probs_dropout_prob", "hidden_dropout_prob")]
        if rates[0] is not None and rates[0] == rates[1]:
            del values["attention_probs_dropout_prob"]
        if values.get("hidden_act") == "gelu":
            values["hidden_act"] = "gelu_approximate"
        renamed: dict[str, Any] = {}
        for key, value in values.items():
            name = _ORIGINAL_NAMES.get(key, key)
            if name in renamed:
                raise ConfigError(f"{source}: `{name}` is given twice, once as `{key}`.")
            renamed[name] = value
        return from_dict(cls, renamed, source)

    @classmethod
    def from_name_or_path(cls, name: str, **fields: Any) -> BertConfig:
        """Builds the config of a named size, or reads it from a JSON file.

        Args:
            name: key of `SIZES`, or path of a JSON file.
            **fields: values for other fields; they must match the values in a file.

        Returns:
            The config.

        Raises:
            ConfigError: for an unknown size, an invalid file, or a file that contradicts `fields`.
        """
        if name in SIZES:
            return cls.from_size(name, **fields)
        if not Path(name).is_file():
            raise ConfigError(
                f"{name!r} is neither a JSON file nor a known model size{did_you_mean(name, SIZES)}: {', '.join(SIZES)}"
            )
        mapping = read_json_object(name)
        names = {_ORIGINAL_NAMES.get(key, key) for key in mapping}
        absent = {key: value for key, value in fields.items() if key not in names}
        config = cls.from_mapping(mapping | absent, source=name)
        for key, expected in fields.items():
            if getattr(config, key) != expected:
                raise ConfigError(f"{name}: `{key}` must be {expected} here. Received: {getattr(config, key)}")
        return config


def _default_width(config: BertConfig) -> int:
    """Returns the width of the feed-forward layer of the named sizes."""
    return gated_width(config.hidden_dim) if config.feed_forward == "gated" else 4 * config.hidden_dim

"""Scales of the experiments: model sizes, pre-training steps, and fine-tuning settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bert_tf.config import BertConfig, ConfigError
from bert_tf.experiments.design import Pretraining

LAPTOP, PAPER = "laptop", "paper"
# The steps of figure 5, as shares of a run. The paper's curves begin at 200,000 of a million steps.
FIGURE_SHARES = (0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True)
class Scale:
    """Size of all runs of an experiment.

    Args:
        name: name on the command line.
        size: size of the model that stands for BERT Base.
        recipe: recipe of `bert-tf pretrain`.
        steps: optimizer steps of a pre-training run.
        settings: settings of all pre-training runs.
        seeds: number of fine-tuning seeds.
        stand_ins: whether other data replaces missing official data.
    """

    name: str
    size: str
    recipe: str
    steps: int
    seeds: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    stand_ins: bool = False

    def pretraining(self, name: str = "bert", size: str = "", **settings: Any) -> Pretraining:
        """Returns a run of this scale.

        Args:
            name: name of its directory; the default is BERT itself.
            size: model size; defaults to that of the scale.
            **settings: settings of `--set`, with `__` for the dot: `training__nsp_weight=0.0`.
        """
        named = {key.replace("__", "."): value for key, value in settings.items()}
        return Pretraining(name, size or self.size, {**self.settings, **named})

    def with_steps(self, steps: int) -> Scale:
        """Returns the scale with other pre-training runs, whose checkpoints for figure 5 are kept.

        Args:
            steps: optimizer steps of a run.

        Raises:
            ConfigError: unless the steps of figure 5 are whole numbers.
        """
        every, rest = divmod(steps, len(FIGURE_SHARES))
        if steps < 1 or rest:
            raise ConfigError(
                f"--steps must be a multiple of {len(FIGURE_SHARES)}, for the steps of figure 5. Received: {steps}"
            )
        kept = {"training.checkpoint_every": every, "training.keep_every": every}
        return replace(self, steps=steps, settings={**self.settings, **kept})

    def sized(self, layers: int, hidden: int, heads: int) -> Pretraining:
        """Returns BERT of another size.

        Args:
            layers: number of layers.
            hidden: hidden size.
            heads: number of attention heads.
        """
        own = BertConfig.from_size(self.size)
        if (layers, hidden, heads) == (own.num_layers, own.hidden_dim, own.num_heads):
            return self.pretraining()
        settings = {"num_layers": layers, "hidden_dim": hidden, "num_heads": heads, "intermediate_dim": 4 * hidden}
        return self.pretraining(
            f"L{layers}_H{hidden}_A{heads}", "", **{f"model__{name}": value for name, value in settings.items()}
        )

    @property
    def is_laptop(self) -> bool:
        """True at the scale of a laptop."""
        return self.name == LAPTOP


SCALES = {
    # Two cores: the size `tiny`, without dropout because no text is repeated. With these
    # settings masked language models leave the plateau at which they begin (docs/reproduction.md).
    LAPTOP: Scale(
        LAPTOP,
        "tiny",
        "laptop",
        steps=3_000,
        seeds=3,
        settings={
            "model.dropout": 0.0,
            "training.batch_size": 64,
            "training.padding": "pack",
            # The paper's optimizer, without the rate of the recipe's.
            "training.optimizer": "adamw",
            "training.matrix_learning_rate": -1.0,
            "training.learning_rate": 2e-3,
            "training.warmup_steps": 300,
            "training.adam_beta_2": 0.98,
            "training.checkpoint_every": 600,
            "training.keep_every": 600,
        },
        stand_ins=True,
    ),
    # arXiv 1810.04805, A.2: a million steps, the last tenth on 512 tokens; 5 seeds (sections 5.2 and 5.3).
    PAPER: Scale(PAPER, "base", "paper", steps=1_000_000, seeds=5, settings={"training.keep_every": 100_000}),
}


def scale(name: str) -> Scale:
    """Returns the scale called `name`. Raises ConfigError if it is not one of `SCALES`."""
    if name not in SCALES:
        raise ConfigError(f"the scale must be one of {', '.join(SCALES)}. Received: {name!r}")
    return SCALES[name]

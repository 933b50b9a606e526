"""Named pre-training configurations; `--model`, `--steps` and `--set` override a recipe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bert_tf.config import BertConfig, ConfigError, DataConfig, RunConfig, TrainingConfig
from bert_tf.config.model import NAMED_SIZES

# Positions of a batch, the width up to which the highest rates were best, the layers from which on `modern` is the
# better body (docs/bodies.md), and evaluations, with the sizes of `of_size`.
_POSITIONS, _WIDTH, _DEEP, _EVALUATIONS = 4096, 256, 8, 8


def default() -> RunConfig:
    """BERT's own hyperparameters at batch size 32; the default recipe."""
    return RunConfig()


def of_size(size: str, steps: int, vocabulary_size: int = BertConfig.vocabulary_size, length: int = 64) -> RunConfig:
    """The settings of `laptop`, `mini` and `auto` (docs/time_to_quality.md) for a size.

    Args:
        size: name of the size.
        steps: steps of the run.
        vocabulary_size: number of word pieces.
        length: tokens of an example. A batch has as many examples as fit into 4,096 positions.

    Example:
        >>> from bert_tf.pretraining.recipes import of_size
        >>> run = of_size("small", 1000, length=128)
        >>> run.training.batch_size, run.training.matrix_learning_rate
        (32, 0.003)
    """
    layers, width = NAMED_SIZES[size]
    narrower = min(1.0, _WIDTH / width)
    body = {"body": "modern"} if layers >= _DEEP else {"positions": "rotary"}
    every = max(1, steps // _EVALUATIONS)
    return RunConfig(
        model=BertConfig.from_size(
            size, vocabulary_size=vocabulary_size, dropout=0.0, max_sequence_length=max(512, length), **body
        ),
        training=TrainingConfig(
            steps=steps,
            batch_size=max(1, _POSITIONS // length),
            masked_lm_prob=0.3,
            nsp_weight=0.3,
            optimizer="muon",
            # Measured: 3e-3 and 0.006 for widths of 128 and 256, 2e-3 and 0.003 for 512.
            learning_rate=float(f"{3e-3 * math.sqrt(narrower):.2g}"),
            matrix_learning_rate=float(f"{6e-3 * narrower:.2g}"),
            matrix_momentum=0.9,
            adam_beta_2=0.98,
            checkpoint_every=500,
            evaluate_every=every,
            evaluate_steps=20,
        ),
    )


def laptop() -> RunConfig:
    """The size `tiny` with rotary positions and Muon in ten minutes on two CPU cores (docs/time_to_quality.md).

    Command:  bert-tf pretrain --recipe laptop --data DIR --output DIR, with data of `data --max_seq_length 64` and a
        vocabulary of 8,000 word pieces
    Hardware: two idle cores of an AMD EPYC: 168 ms a step, so 9.6 minutes, 13.5 M tokens, 24 thousand a second.
    Expected: accuracy on Wikipedia, 7,027 held-out examples, two seeds: 35.7 and 36.1 % of masked words (perplexity
        47.3 and 46.1), 80.0 and 77.5 % of next sentences.
    """
    return of_size("tiny", 3_400)


def mini() -> RunConfig:
    """The size `mini` with rotary positions and Muon in two hours on two CPU cores (docs/time_to_quality.md).

    Command:  bert-tf pretrain --recipe mini --data DIR --output DIR, with data of `data --max_seq_length 64` and a
        vocabulary of 16,000 word pieces
    Hardware: two idle cores of an AMD EPYC: 0.92 s a step, so 108 minutes by 40 steps, 27.7 M tokens, 4.3 thousand
        a second.
    Expected: accuracy on Wikipedia, 2,560 held-out examples, trained by `benchmarks.sweep` on a GPU, three seeds: 39.1,
        38.8 and 39.1 % of masked words (perplexity 41.8, 41.3 and 41.3).
    """
    return of_size("mini", 7_000)


def paper() -> RunConfig:
    """The paper's pre-training of base (arXiv 1810.04805, A.2): a million steps, the last tenth with 512 tokens.

    Command:  bert-tf pretrain --recipe paper --data DIR --output DIR, with data of `data --max_seq_length 128,512`
    Hardware: 4 Cloud TPUs (16 chips) for four days in the paper; computed: 6.6 hours on 8 A100; not run here.
    Expected: published GLUE test average without WNLI 79.6, SQuAD 1.1 dev F1 88.5.
    """
    return RunConfig(
        model=BertConfig.from_size("base"),
        training=TrainingConfig(
            steps=1_000_000,
            long_share=0.1,
            batch_size=256,
            learning_rate=1e-4,
            warmup_steps=10_000,
            checkpoint_every=5_000,
            evaluate_every=50_000,
            evaluate_steps=200,
        ),
    )


def paper_large() -> RunConfig:
    """The paper's pre-training of large, with the settings of `paper`.

    Command:  bert-tf pretrain --recipe paper_large --data DIR --output DIR, with data of
        `data --max_seq_length 128,512`
    Hardware: 16 Cloud TPUs (64 chips) for four days in the paper; computed: 22.7 hours on 8 A100; not run here.
    Expected: published GLUE test average without WNLI 82.1, SQuAD 1.1 dev F1 90.9.
    """
    return replace(paper(), model=BertConfig.from_size("large"))


def mosaic() -> RunConfig:
    """The optimization of MosaicBERT (arXiv 2312.17482) on BERT base: 30 % masks, packing, no pairs, and bfloat16.

    MosaicBERT's model also has linear attention biases and gated feed-forward layers, which are left out here. Its
    learning rate ends at 2 % of the peak; this one decays to 0. Its weight decay of 1e-5 is for each step at the peak
    rate of 5e-4; as a factor of the rate, as here, it is 0.02.

    Command:  bert-tf pretrain --recipe mosaic --data DIR --output DIR --strategy mirrored, with data of
        `data --max_seq_length 128 --masked_lm_prob 0.3 --no_nsp`; needs 8 devices, or another `training.accumulate`
    Hardware: computed: 5.8 hours on 8 A100; not run here. MosaicML measured 11.5 hours for BERT base, padded and
        without fused attention.
    Expected: published GLUE dev average of BERT base with these settings and 15 % masks 83.3 (README of
        mosaicml/examples); MosaicBERT's is 79.6 after 1.13 hours.
    """
    return RunConfig(
        model=BertConfig.from_size("base", attention_dropout=0.0),
        training=TrainingConfig(
            steps=70_000,
            batch_size=4_096,
            accumulate=4,
            padding="pack",
            learning_rate=5e-4,
            warmup_steps=4_200,
            adam_beta_2=0.98,
            weight_decay=0.02,
            checkpoint_every=1_000,
            evaluate_every=2_000,
            evaluate_steps=200,
            precision="bfloat16",
            attention_kernel="fused",
            normalization="compute",
        ),
    )


def large_lamb() -> RunConfig:
    """The first phase of BERT large in 76 minutes (arXiv 1904.00962): LAMB, batches of 65,536, 128 tokens.

    The paper has no table of the rates of these phases. They are those of NVIDIA's DeepLearningExamples.

    Command:  bert-tf pretrain --recipe large_lamb --data DIR --output DIR --strategy mirrored, with data of
        `data --max_seq_length 128`; needs 8 devices, or another `training.accumulate`
    Hardware: computed: 30.9 hours on 8 A100; not run here. 1,024 TPU v3 chips took 76 minutes for both phases.
    Expected: after the second phase, `large_lamb_512`, published SQuAD 1.1 dev F1 90.6.
    """
    return RunConfig(
        model=BertConfig.from_size("large"),
        training=TrainingConfig(
            steps=7_038,
            batch_size=65_536,
            accumulate=64,
            optimizer="lamb",
            learning_rate=6e-3,
            warmup_steps=2_000,
            checkpoint_every=100,
            evaluate_every=500,
            evaluate_steps=200,
            log_every=10,
            precision="bfloat16",
        ),
    )


def large_lamb_512() -> RunConfig:
    """The second phase of `large_lamb`: batches of 32,768, 512 tokens, a new warm-up.

    Command:  bert-tf pretrain --recipe large_lamb_512 --init RUN --data DIR --output DIR --strategy mirrored, with data
        of `data --max_seq_length 512` and the run of `large_lamb`; needs 8 devices, or another `training.accumulate`
    Hardware: computed: 14.5 hours on 8 A100; not run here.
    Expected: published SQuAD 1.1 dev F1 90.6, after 8,599 steps of both phases.
    """
    run = large_lamb()
    training = replace(run.training, steps=1_561, batch_size=32_768, accumulate=128, learning_rate=4e-3,
                       warmup_steps=200)  # fmt: skip
    return replace(run, training=training)


RECIPES = {
    "default": default,
    "laptop": laptop,
    "mini": mini,
    "paper": paper,
    "paper_large": paper_large,
    "mosaic": mosaic,
    "large_lamb": large_lamb,
    "large_lamb_512": large_lamb_512,
}
# The recipe that measures and chooses; see `plan`.
AUTO = "auto"


# Former names of recipes.
ALIASES = {"modern": "mosaic"}


def present_name(name: str) -> str:
    """Returns the name of a recipe that may have a former one."""
    return ALIASES.get(name, name)


def recipe(name: str) -> RunConfig:
    """Returns the recipe called `name`. Raises ConfigError if it is not one of `RECIPES`."""
    name = present_name(name)
    if name not in RECIPES:
        raise ConfigError(f"the recipe must be one of {', '.join(RECIPES)}. Received: {name!r}")
    return RECIPES[name]()


@dataclass(frozen=True)
class ExpectedData:
    """Data that a recipe is made for; the other settings of `bert-tf data` do not matter to it.

    Args:
        lengths: `max_seq_length` of the directories, shorter examples first.
        masked_lm_prob: share of tokens to predict.
        next_sentence: whether the examples are pairs for next sentence prediction.
    """

    lengths: tuple[int, ...]
    masked_lm_prob: float = 0.15
    next_sentence: bool = True

    @property
    def flags(self) -> str:
        """Flags of `bert-tf data` that build the data."""
        flags = f"--max_seq_length {','.join(map(str, self.lengths))}"
        if self.masked_lm_prob != DataConfig().masked_lm_prob:
            flags += f" --masked_lm_prob {self.masked_lm_prob}"
        return flags if self.next_sentence else f"{flags} --no_nsp"

    @classmethod
    def of(cls, configs: Sequence[DataConfig]) -> ExpectedData:
        """Returns the description of existing data, from the configuration of each length."""
        first = configs[0]
        return cls(tuple(config.max_seq_length for config in configs), first.masked_lm_prob, first.next_sentence)


# Data of the recipes that are made for certain data.
EXPECTED_DATA = {
    "mini": ExpectedData((64,)),
    "paper": ExpectedData((128, 512)),
    "paper_large": ExpectedData((128, 512)),
    "mosaic": ExpectedData((128,), masked_lm_prob=0.3, next_sentence=False),
    "large_lamb": ExpectedData((128,)),
    "large_lamb_512": ExpectedData((512,)),
}

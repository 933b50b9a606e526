"""Named pre-training configurations; `--model`, `--steps` and `--set` override a recipe."""

from __future__ import annotations

from dataclasses import replace

from bert_tf.config import BertConfig, ConfigError, RunConfig, TrainingConfig


def default() -> RunConfig:
    """BERT's own hyperparameters at batch size 32; the default recipe."""
    return RunConfig()


def paper() -> RunConfig:
    """The paper's pre-training at 128 tokens (arXiv 1810.04805, A.2): 900,000 of its million steps.

    Command:  bert-tf pretrain --recipe paper --data DIR --output DIR
    Hardware: the paper used 4 Cloud TPUs (16 chips) for four days for base; not run here.
    """
    return RunConfig(
        model=BertConfig.from_size("base"),
        training=TrainingConfig(
            steps=900_000,
            batch_size=256,
            learning_rate=1e-4,
            warmup_steps=10_000,
            checkpoint_every=5_000,
            evaluate_every=50_000,
        ),
    )


def laptop() -> RunConfig:
    """A small BERT on two CPU cores: short warm-up and a high rate, which small models tolerate.

    Command:  bert-tf pretrain --recipe laptop --data DIR --output DIR --steps 6000 --set model.dropout=0.0
    Hardware: two shared cores of an AMD EPYC: 36 minutes, 22 thousand tokens per second.
    Expected: held-out accuracy on 38 MB of Wikipedia with 16,000 word pieces and 128 tokens: 15.6 % of masked words
        (perplexity 565, still falling), 83.8 % of next sentences.
    """
    return RunConfig(
        model=BertConfig.from_size("tiny"),
        training=TrainingConfig(
            steps=10_000,
            batch_size=64,
            learning_rate=1e-3,
            warmup_steps=500,
            checkpoint_every=500,
            evaluate_every=1_000,
            evaluate_steps=40,
        ),
    )


def small() -> RunConfig:
    """The size `small` on two CPU cores: small, packed batches, and no dropout, since no text is repeated.

    Command:  bert-tf pretrain --recipe small --data DIR --output DIR
    Hardware: two shared cores of an AMD EPYC without AVX512: 71 minutes, 860 tokens per second.
    Expected: accuracy on Wikipedia and books with 16,000 word pieces and 128 tokens, 640 held-out examples: 13.0 % of
        masked words (baseline of the most frequent piece 5.1 %; perplexity 742, still falling), 74.5 % of next
        sentences. A rate of 1e-3 ends worse than the frequencies of the word pieces.
    """
    return RunConfig(
        model=BertConfig.from_size("small", dropout=0.0),
        training=TrainingConfig(
            steps=1_800,
            batch_size=16,
            padding="pack",
            learning_rate=3e-4,
            warmup_steps=180,
            checkpoint_every=200,
            evaluate_every=200,
            evaluate_steps=40,
            log_every=25,
        ),
    )


def mini() -> RunConfig:
    """The size `mini` in two hours on two CPU cores, for fine-tuning: no dropout, packed, short examples first.

    Command:  bert-tf pretrain --recipe mini --data DIR --output DIR, with data of `data --max_seq_length 64,256`
    Hardware: two shared cores of an AMD EPYC without AVX512: 116 minutes, 18.1 M tokens, 2,300 to 3,300 per second.
    Expected: accuracy on Wikipedia and books with 16,000 word pieces, 640 held-out examples of 64 tokens after 8,000
        steps: 25.0 % of masked words (baseline of the most frequent piece 5.3 %; perplexity 221, still falling),
        85.6 % of next sentences. From step 2,000 to 4,000 it plateaus at 15 %. In the last steps, of 256 tokens, the
        rates are too low to train positions beyond 64 (16.7 % there; 19.1 % after 10.9 M more tokens with
        `long_share` = 0.12); `mini_256` trains them.
    """
    return RunConfig(
        model=BertConfig.from_size("mini", dropout=0.0, max_sequence_length=256),
        training=TrainingConfig(
            steps=8_400,
            long_share=0.03,
            batch_size=32,
            padding="pack",
            learning_rate=7e-4,
            warmup_steps=600,
            adam_beta_2=0.98,
            checkpoint_every=500,
            evaluate_every=500,
            evaluate_steps=20,
            log_every=50,
        ),
    )


def mini_256() -> RunConfig:
    """The size `mini` extended from 64 to 256 positions in eight minutes: repeated position embeddings, a high rate.

    Command:  bert-tf pretrain --recipe mini_256 --init RUN --data DIR --output DIR --set model.max_sequence_length=256,
        with data of `data --max_seq_length 256` and a run with 64 positions
    Hardware: two cores of an AMD EPYC without AVX512: 8 minutes, 1.3 M tokens, 3,000 per second.
    Expected: 27.1 % of masked words of 256 tokens (perplexity 160), against 19.1 % with positions trained last, at low
        rates; the initial run was a second one of `mini`, cut to its first 64 positions.
    """
    run = mini()
    training = replace(run.training, steps=800, batch_size=8, learning_rate=5e-4, warmup_steps=40,
                       checkpoint_every=200, evaluate_every=200)  # fmt: skip
    return replace(run, training=training)


RECIPES = {"default": default, "laptop": laptop, "small": small, "mini": mini, "mini_256": mini_256, "paper": paper}


def recipe(name: str) -> RunConfig:
    """Returns the recipe called `name`. Raises ConfigError if it is not one of `RECIPES`."""
    if name not in RECIPES:
        raise ConfigError(f"the recipe must be one of {', '.join(RECIPES)}. Received: {name!r}")
    return RECIPES[name]()

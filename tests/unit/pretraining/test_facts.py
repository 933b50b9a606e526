"""Facts of a pre-training run: amounts, chance, and a sample text with one mask."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bert_tf.config import BertConfig, RunConfig, TrainingConfig
from bert_tf.data.examples.sample_examples import Token
from bert_tf.pretraining.facts import chance_line, next_step, sample_inputs


def tokens(text: str) -> list[Token]:
    """Returns tokens for pieces between spaces; `piece/original/fate` is a predicted one, `b:piece` of segment 1."""
    found = []
    for part in text.split():
        piece, *predicted = part.removeprefix("b:").split("/")
        found.append(Token(piece, int(part.startswith("b:")), *predicted))
    return found


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ("[CLS] the cat [MASK]/sat/masked [SEP] b:it b:[MASK]/slept/masked", "the cat [MASK]"),
        ("[CLS] it ' s a [MASK]/big/masked mat . [SEP]", "it's a [MASK] mat."),
        ("( the ##re ) , red/there/random is", "(there), [MASK] is"),
        ("the cat sat", "the [MASK] sat"),
        ("play [MASK]/##ing/masked now", "playing [MASK]"),
    ],
)
def test_the_first_segment_is_written_with_one_mask(pieces: str, text: str) -> None:
    assert sample_inputs(tokens(pieces)) == {"text": text}


def test_a_text_without_words_is_no_sample() -> None:
    assert sample_inputs(tokens("[CLS] . . [SEP]")) == {}


def test_chance_is_stated_or_unknown() -> None:
    assert "perplexity 817, 5.6% of masked pieces" in chance_line({"mlm_perplexity": 817.2, "mlm_accuracy": 0.056})
    assert "next pieces" in chance_line({"causal_lm_perplexity": 817.2, "causal_lm_accuracy": 0.056})
    assert "unknown" in chance_line({})


def test_advice_names_only_what_the_run_lacks() -> None:
    model = BertConfig.from_size("tiny", vocabulary_size=100)
    plain = next_step(RunConfig(model, TrainingConfig(steps=300)))
    assert all(word in plain for word in ("--steps 600", "model.positions=rotary", "training.optimizer=muon"))
    run = RunConfig(replace(model, positions="rotary"), TrainingConfig(steps=300, optimizer="muon"))
    assert "--steps 600" in next_step(run)
    assert not any(word in next_step(run) for word in ("rotary", "muon"))

from __future__ import annotations

import re

import numpy as np
import pytest
from tensorboard.plugin_util import markdown_to_safe_html

from bert_tf.data.schema import MASK_POSITIONS, MLM_LOGITS, PADDING_MASK, SEGMENT_IDS, TOKEN_IDS
from bert_tf.reports.training import page
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from bert_tf.training.evaluation.baselines import Evaluation
from bert_tf.training.evaluation.mask_samples import fill_masks, in_markdown
from bert_tf.training.logging.run_status import RunStatus

PIECES = Vocabulary((*SPECIAL_TOKENS, "the", "cat", "sat", "##s", "a|b", "<b>"))
IDS = {piece: number for number, piece in enumerate(PIECES.tokens)}


def example_of(text, segments, masks, weights=None):
    """Returns a batch of one example; `masks` are (position, piece), the last one with weight 0."""
    ids = [IDS[piece] for piece in text.split()]
    return (
        {
            TOKEN_IDS: np.array([ids + [0, 0]]),
            SEGMENT_IDS: np.array([[int(digit) for digit in segments] + [0, 0]]),
            PADDING_MASK: np.array([[1] * len(ids) + [0, 0]]),
            MASK_POSITIONS: np.array([[position for position, _ in masks] + [0]]),
        },
        {MLM_LOGITS: np.array([[IDS[piece] for _, piece in masks] + [0]])},
        {MLM_LOGITS: np.array([[1.0] * len(masks) + [0.0]])},
    )


def model_predicting(*answers):
    """Returns a model that predicts these pieces with these probabilities, one prediction per mask."""
    table = np.full((1, len(answers) + 1, len(PIECES)), -np.inf)
    for number, answer in enumerate(answers):
        for piece, probability in answer.items():
            table[0, number, IDS[piece]] = np.log(probability) + 5.0
    table[0, -1] = 0.0
    return lambda inputs, training: {MLM_LOGITS: table}


TEXT = "[CLS] the [MASK] the sat [SEP] a|b [MASK] [SEP]"
EXAMPLE = example_of(TEXT, "000000111", [(7, "<b>"), (3, "##s"), (2, "cat")])
ANSWERS = (
    {"the": 0.5, "sat": 0.3, "<b>": 0.2},
    {"##s": 0.75, "the": 0.25},
    {"cat": 0.9, "sat": 0.1},
)


@pytest.fixture
def filled():
    (example,) = fill_masks(model_predicting(*ANSWERS), EXAMPLE, PIECES)
    return example


def test_masks_are_listed_in_order_with_the_most_probable_pieces(filled):
    assert [token.piece for token in filled.tokens] == TEXT.split()
    assert [token.segment for token in filled.tokens] == [0, 0, 0, 0, 0, 0, 1, 1, 1]
    assert [filling.position for filling in filled.fillings] == [2, 3, 7]
    assert [filled.tokens[filling.position].original for filling in filled.fillings] == ["cat", "##s", "<b>"]
    assert [filled.is_right(filling) for filling in filled.fillings] == [True, True, False]
    assert [filling.probability for filling in filled.fillings] == pytest.approx([0.9, 0.75, 0.2])
    pieces = [[piece for piece, _ in filling.guesses] for filling in filled.fillings]
    assert pieces == [["cat", "sat", "[PAD]"], ["##s", "the", "[PAD]"], ["the", "sat", "<b>"]]
    assert [share for _, share in filled.fillings[2].guesses] == pytest.approx([0.5, 0.3, 0.2])


def test_text_is_a_table_that_tensorboard_renders(filled):
    html = markdown_to_safe_html(in_markdown(filled))
    text = re.sub(r"<[^>]*>", "", html[: html.index("<table")]).strip()
    assert text == "[CLS] the [MASK] (1) the (2) sat [SEP] a|b [MASK] (3) [SEP]"
    rows = re.findall(r"<tr>\s*(.*?)\s*</tr>", html, re.DOTALL)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]
    assert cells[0] == ["", "right piece", "its probability", *(f"guess {number}" for number in (1, 2, 3))]
    assert cells[2] == ["2 ✓", "##s", "75.0%", "##s 75.0%", "the 25.0%", "[PAD] 0.0%"]
    assert cells[3] == ["3 ✗", "&lt;b&gt;", "20.0%", "the 50.0%", "sat 30.0%", "&lt;b&gt; 20.0%"]


def test_page_marks_correct_and_wrong_predictions(filled):
    text = page([], RunStatus("runs/mine", 10), Evaluation({}, filled=(filled,)))
    assert "9 tokens, 2 of 3 masks correct" in text
    shown = re.findall(r'<ruby class="(\w+)" title="[^"]+"><span class="now">(.*?)</span>.*?<rt>(.*?)</rt>', text)
    assert shown == [("right", "cat", "90%"), ("right", "·s", "75%"), ("wrong", "the", "&lt;b&gt;")]
    assert "Sample predictions" not in page([], RunStatus("runs/mine", 10), Evaluation({}))

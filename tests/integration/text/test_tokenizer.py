"""The tokenizer's ids are those of the published algorithm, from Python and from a saved graph."""

from __future__ import annotations

import subprocess
import sys

import pytest
import tensorflow as tf

from bert_tf.text.tokenizer import BertTokenizer
from tests.support.text.samples import (
    small_vocabulary,
)

CASES = {"uncased": True, "cased": False}


class Saved(tf.Module):
    """Tokenizes like a served model; the shape is left open, so that only the graph can reject it."""

    def __init__(self, tokenizer: BertTokenizer):
        super().__init__()
        self.tokenizer = tokenizer

    @tf.function(input_signature=[tf.TensorSpec(None, tf.string)])
    def ids(self, texts):
        return self.tokenizer.ids(texts)

    @tf.function(input_signature=[tf.TensorSpec(None, tf.string)])
    def masked_ids(self, texts):
        return self.tokenizer.ids(texts, keep_mask_token=True)

    @tf.function(input_signature=[tf.TensorSpec(None, tf.string)])
    def pieces(self, texts):
        return tuple(self.tokenizer.pieces(texts))


@pytest.fixture(scope="module", params=CASES.values(), ids=CASES.keys())
def lowercase(request) -> bool:
    return request.param


@pytest.fixture(scope="module")
def tokenizer(lowercase) -> BertTokenizer:
    return BertTokenizer(small_vocabulary(), lowercase)


def test_wrong_ranks_do_not_crash_a_serving_process(tmp_path):
    tf.saved_model.save(Saved(BertTokenizer(small_vocabulary())), str(tmp_path))
    program = (
        "import sys, tensorflow as tf, tensorflow_text\n"
        "model = tf.saved_model.load(sys.argv[1])\n"
        "for function in (model.ids, model.masked_ids, model.pieces):\n"
        "    for texts in ('x', [['x']], [[['x', 'é']]], [['é'], ['']]):\n"
        "        try:\n"
        "            function(tf.constant(texts))\n"
        "        except tf.errors.InvalidArgumentError as error:\n"
        "            assert 'shape' in str(error).lower(), error\n"
        "        else:\n"
        "            raise SystemExit(f'answered {texts}')\n"
        "print(model.ids(tf.constant(['un'])).to_list())\n"
    )
    result = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    assert result.stdout.strip() == str([[small_vocabulary().id_of("un")]])

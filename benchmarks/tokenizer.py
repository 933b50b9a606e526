"""Speed of the exact tokenizer compared with tensorflow-text's FastBertTokenizer and Hugging Face's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf
import tensorflow_text as tf_text
import tokenizers

from benchmarks.measure import rates, report
from benchmarks.peers.session import limit_threads
from bert_tf.data.corpora.docstrings import library_documents
from bert_tf.text.tokenizer import BertTokenizer
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

RAW = "tensorflow-text FastBertTokenizer (not exact)"
_LIBRARIES = ("asyncio", "email", "logging", "tkinter", "numpy", "keras")
_BATCH = 1024


def corpus() -> list[str]:
    """Returns paragraphs of documentation; every tenth has an accent, so that both paths of the graph are taken."""
    paragraphs = [text for document in library_documents(_LIBRARIES) for text in document.paragraphs]
    return [f"{text} Voilà." if number % 10 == 0 else text for number, text in enumerate(paragraphs)]


def learned_vocabulary(texts: list[str]) -> Vocabulary:
    """Returns a WordPiece vocabulary of 8,000 pieces learned from `texts`."""
    learner = tokenizers.BertWordPieceTokenizer(lowercase=True)
    learner.train_from_iterator(texts, vocab_size=8000, special_tokens=list(SPECIAL_TOKENS), show_progress=False)
    pieces = learner.get_vocab()
    return Vocabulary(tuple(sorted(pieces, key=lambda piece: pieces[piece])))


def compare(texts: Sequence[str], vocabulary: Vocabulary) -> dict[str, float]:
    """Returns the words per second of all contestants for `texts`, on one core."""
    exact = BertTokenizer(vocabulary)
    raw = tf_text.FastBertTokenizer(list(vocabulary.tokens), lower_case_nfd_strip_accents=True, token_out_type=tf.int32)
    rust = tokenizers.BertWordPieceTokenizer(
        {token: number for number, token in enumerate(vocabulary.tokens)}, lowercase=True
    )
    raw_graph = tf.function(raw.tokenize, input_signature=[tf.TensorSpec([None], tf.string)])
    batches = [list(texts[start : start + _BATCH]) for start in range(0, len(texts), _BATCH)]
    words = sum(len(text.split()) for text in texts)
    return rates(
        {
            "bert_tf (exact)": lambda: exact.tokenize(texts),
            RAW: lambda: [raw_graph(tf.constant(b)) for b in batches],
            "Hugging Face tokenizers": lambda: [
                rust.encode_batch(batch, add_special_tokens=False) for batch in batches
            ],
        },
        words,
    )


def run(output: Path) -> None:
    """Runs the benchmark and reports the results."""
    limit_threads(1)
    texts = corpus()
    report("Tokenizing", "words/s", compare(texts, learned_vocabulary(texts)), "Hugging Face tokenizers", output)

"""`python -m benchmarks.preprocessors`: cost of preprocessors in `tf.data`, relative to text classification.

Each preprocessor maps a dataset of batches of texts to the inputs and targets of its model. `BertTextPreprocessor` and
`BertChoicePreprocessor` are TensorFlow graphs, the others run in Python. Runs are interleaved. Prints the examples per
second of processor time and the ratio to `BertTextPreprocessor` in the same round, medians over the rounds. An example
of multiple choice has four choices.
"""

from __future__ import annotations

import os
import random
import statistics
import string
from typing import Any

import tensorflow as tf

import bert_tf
from benchmarks import measure
from bert_tf.models.preprocessors.base import Preprocessor
from bert_tf.text.vocabulary import CONTINUATION, SPECIAL_TOKENS

TITLE = "Preprocessors in tf.data"
LENGTH, BATCH = 128, 32
WORDS, TAGS = 20_000, 5
Case = tuple[Preprocessor, Any, Any]


def cases(count: int, seed: int) -> dict[str, Case]:
    """Returns the preprocessors with texts and labels of `count` random sentences of 15 to 60 words."""
    draw = random.Random(seed)
    letters = string.ascii_lowercase
    words = sorted({"".join(draw.choices(letters, k=draw.randint(2, 9))) for _ in range(WORDS)})
    # Half of the words are single pieces; a tenth of the drawn words are of any kind.
    pieces = (*SPECIAL_TOKENS, *letters, *(CONTINUATION + letter for letter in letters), *words[::2])
    tokenizer = bert_tf.BertTokenizer(bert_tf.Vocabulary(pieces))
    sentences = [
        [draw.choice(words if draw.random() < 0.1 else words[::2]) for _ in range(draw.randint(15, 60))]
        for _ in range(count)
    ]
    texts = [" ".join(sentence) for sentence in sentences]
    heads = [" ".join(sentence[:6]) for sentence in sentences]
    tags = tf.ragged.constant([draw.choices(range(TAGS), k=len(sentence)) for sentence in sentences])
    answers = [" ".join(sentence[5:9]) for sentence in sentences]
    choices = [[head, "b", "c", "d"] for head in heads]
    zeros = [0] * count
    return {
        "text": (bert_tf.BertTextPreprocessor(tokenizer, LENGTH), texts, zeros),
        "choices": (bert_tf.BertChoicePreprocessor(tokenizer, LENGTH), (texts, choices), zeros),
        "words": (bert_tf.BertWordPreprocessor(tokenizer, LENGTH), tf.ragged.constant(sentences), tags),
        "spans": (bert_tf.BertSpanPreprocessor(tokenizer, LENGTH, LENGTH // 2, 16), (heads, texts), answers),
        "masked_lm": (bert_tf.BertMaskedLMPreprocessor(tokenizer, LENGTH), texts, zeros),
    }


def processor_time(case: Case) -> float:
    """Returns the processor time of all batches, in seconds."""
    preprocessor, x, y = case
    batches = preprocessor.mapped(tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH), True, True)
    # Traces the graphs.
    list(batches.take(1))
    before = os.times()
    for _ in batches:
        pass
    after = os.times()
    return after.user + after.system - before.user - before.system


def table(rates: dict[str, float], ratios: dict[str, float]) -> str:
    """Returns the metrics as a Markdown table."""
    lines = ["| preprocessor | examples/s of processor time | cost, relative to text |", "|---|---|---|"]
    return "\n".join(lines + [f"| {name} | {rates[name]:,.0f} | {ratios[name]:.2f} |" for name in rates])


def main() -> None:
    """Runs the benchmark and reports the results."""
    parser = measure.parser(__doc__)
    parser.add_argument("--examples", type=int, default=4096, help="number of examples; default: %(default)s")
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds; default: %(default)s")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    of_kind = cases(args.examples, args.seed)
    rounds = [{name: processor_time(case) for name, case in of_kind.items()} for _ in range(args.rounds)]
    rates = {name: statistics.median(args.examples / times[name] for times in rounds) for name in of_kind}
    ratios = {name: statistics.median(times[name] / times["text"] for times in rounds) for name in of_kind}
    measure.heading(TITLE)
    print(table(rates, ratios))
    measure.save(TITLE, {"seed": args.seed, "rates": rates, "ratios": ratios}, args.output)


if __name__ == "__main__":
    main()

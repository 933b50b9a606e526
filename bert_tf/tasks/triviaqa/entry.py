"""Entry of TriviaQA, which `score` supports; models are trained on its files in SQuAD's format."""

from __future__ import annotations

import argparse

from bert_tf.tasks.entry import ScoreEntry


class TriviaEntry(ScoreEntry):
    """Official metrics of TriviaQA, on the files of its directory `qa`."""

    def score_files(self, args: argparse.Namespace) -> tuple[dict[str, float], int]:
        """Returns the metrics, and the number of questions (Wikipedia) or of questions with a document (Web)."""
        from bert_tf.tasks.triviaqa.files import read_trivia
        from bert_tf.tasks.triviaqa.metric import read_predictions, score_trivia

        trivia = read_trivia(args.data)
        return score_trivia(trivia, read_predictions(args.predictions, trivia))


ENTRIES = (
    TriviaEntry("triviaqa", "TriviaQA, Wikipedia and Web, also the verified subsets; exact match and F1 over aliases"),
)

"""Entry of the task `ner`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from bert_tf.tasks.entry import TaskEntry

if TYPE_CHECKING:
    from bert_tf.tasks.base import Task


class NerEntry(TaskEntry):
    """Task of column files, whose columns and tagging scheme are arguments."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the arguments for reading a line."""
        parser.add_argument(
            "--token_column", type=int, default=0, help="column of the word, counted from 0; default: 0"
        )
        parser.add_argument(
            "--tag_column", type=int, default=-1, help="column of the tag; default: -1, the last column"
        )
        parser.add_argument(
            "--scheme",
            default="",
            help="tagging scheme: IO, IOB1, IOB2 or IOBES; default: detected from the training files",
        )
        parser.add_argument(
            "--document_context",
            action="store_true",
            help="fill rows with the surrounding words of a sentence's document",
        )

    def make_task(self, args: argparse.Namespace) -> Task:
        """Returns the task of these columns."""
        from bert_tf.tasks.ner.task import NerTask

        return NerTask(
            token_column=args.token_column,
            tag_column=args.tag_column,
            document_context=args.document_context,
            scheme=args.scheme,
        )


ENTRIES = (
    NerEntry(
        "ner",
        "named entity recognition: CoNLL-2003, WNUT, WikiANN and similar files",
        "bert_tf.tasks.ner.task:NerTask",
        items="sentences",
        # CoNLL-2003's files are called train.txt and test.txt.
        reads_txt=True,
    ),
)

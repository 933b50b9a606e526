"""Progress of long work on stderr."""

from __future__ import annotations

import logging
import re

import pytest

from bert_tf.entry.progress import progress_shown


def test_messages_are_shown_within_the_block_only(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("bert_tf.export.example")
    with progress_shown("bert_tf.export"):
        logger.info("1 of %d: load", 4)
    logger.info("after the block")
    assert re.fullmatch(r"\[ *\d+ s\] 1 of 4: load\n", capsys.readouterr().err)
    assert logging.getLogger("bert_tf.export").propagate

"""Entry of the task `swag`."""

from __future__ import annotations

from bert_tf.tasks.entry import TaskEntry

ENTRIES = (
    TaskEntry(
        "swag",
        "multiple choice of endings: SWAG, and files with its header",
        "bert_tf.tasks.swag.task:SwagTask",
        items="rows",
    ),
)

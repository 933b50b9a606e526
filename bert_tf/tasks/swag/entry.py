"""Entry of the task `swag`."""

from __future__ import annotations

from bert_tf.config import TrainingConfig
from bert_tf.tasks.entry import TaskEntry

ENTRIES = (
    TaskEntry(
        "swag",
        "multiple choice of endings: SWAG, and files with its header",
        "bert_tf.tasks.swag.task:SwagTask",
        items="rows",
        # arXiv 1810.04805, section 4.4.
        recipe=TrainingConfig(learning_rate=2e-5, batch_size=16, epochs=3),
    ),
)

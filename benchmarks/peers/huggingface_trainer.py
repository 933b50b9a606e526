"""Hugging Face's `Trainer` with its BERT in PyTorch, padded to the longest row of a batch or to a fixed length.

Runs in an environment of its own; see `benchmarks.finetune`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import Trainer, TrainerCallback, TrainingArguments

from benchmarks.peers import batches
from benchmarks.peers.huggingface import config_of
from benchmarks.peers.rows import BATCH_SIZE, LEARNING_RATE, Rows, read_rows
from benchmarks.peers.session import Session


class RowDataset(torch.utils.data.Dataset):
    """The rows as a PyTorch dataset."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: int) -> Mapping[str, Any]:
        return self._rows.row(number)


class Collator:
    """Pads a batch, and stores its number of tokens.

    Args:
        length: length to pad to; None pads to the longest row of the batch.
    """

    def __init__(self, length: int | None) -> None:
        self._length = length
        self.tokens: deque[int] = deque()

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Returns the batch under the names of the model's arguments."""
        width = self._length or max(len(row["input_ids"]) for row in rows)
        shape = (len(rows), width)
        batch = {name: torch.zeros(shape, dtype=torch.long) for name in ("input_ids", "token_type_ids")}
        batch["attention_mask"] = torch.zeros(shape, dtype=torch.long)
        for number, row in enumerate(rows):
            count = len(row["input_ids"])
            for name in ("input_ids", "token_type_ids"):
                batch[name][number, :count] = torch.from_numpy(row[name])
            batch["attention_mask"][number, :count] = 1
        self.tokens.append(int(batch["attention_mask"].sum()))
        names = {"label": "labels", "start": "start_positions", "end": "end_positions"}
        for name, argument in names.items():
            if name in rows[0]:
                batch[argument] = torch.tensor([row[name] for row in rows])
        return batch


class Listening(TrainerCallback):
    """Reports every step to the session."""

    def __init__(self, session: Session, collator: Collator) -> None:
        self._session, self._collator = session, collator

    def on_step_end(self, args, state, control, **kwargs):
        """Reports one step and the tokens of its batch."""
        self._session.after_step(units=self._collator.tokens.popleft())


def build_model(size: str, rows: Rows) -> transformers.PreTrainedModel:
    """Builds a classifier or a span predictor, with the original's GELU."""
    config = config_of(size)
    config.num_labels = rows.num_labels if "label" in rows.targets else 2
    if "label" in rows.targets:
        return transformers.BertForSequenceClassification(config)
    return transformers.BertForQuestionAnswering(config)


def main() -> None:
    """Trains until stdin is closed."""
    parser = batches.arguments(__doc__)
    parser.add_argument("--rows", type=Path, required=True, help="file of `rows.write_rows`")
    parser.add_argument("--output", type=Path, required=True, help="output directory of the trainer")
    parser.add_argument("--stock", action="store_true", help="padding to a fixed length, as in the library's examples")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    session, rows = Session(), read_rows(args.rows)
    model = build_model(args.size, rows)
    session.tell(parameters=sum(parameter.numel() for parameter in model.parameters()))
    collator = Collator(rows.max_length if args.stock else None)
    arguments = TrainingArguments(
        output_dir=str(args.output),
        per_device_train_batch_size=BATCH_SIZE,
        learning_rate=LEARNING_RATE,
        weight_decay=batches.WEIGHT_DECAY,
        max_steps=batches.STEPS,
        bf16=args.precision == "bfloat16",
        use_cpu=True,
        # The trainer would drop columns that are not arguments of the model before the collator renames them.
        remove_unused_columns=False,
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    listening = Listening(session, collator)
    Trainer(model, arguments, data_collator=collator, train_dataset=RowDataset(rows), callbacks=[listening]).train()


if __name__ == "__main__":
    main()

"""Fine-tunes a small BERT of transformers on a GLUE task and predicts the development set.

    python finetune_with_transformers.py VOCABULARY TRAIN.tsv DEV.tsv OUTPUT

OUTPUT holds the files of `save_pretrained`, and `answers.json`: the class of every row of DEV. The script runs in an
environment with torch and transformers; the files are those of SST-2.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

STEPS, BATCH = 150, 32


def read(path: str) -> list[list[str]]:
    """Returns the rows below the header."""
    with Path(path).open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]


def main() -> None:
    """Trains, saves and predicts."""
    vocabulary, train, dev, output = sys.argv[1:]
    torch.manual_seed(0)
    tokenizer = BertTokenizerFast(vocab=vocabulary, do_lower_case=True)
    shape = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, num_labels=2, **shape)
    model = BertForSequenceClassification(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def encode(rows: list[list[str]]) -> dict[str, torch.Tensor]:
        return tokenizer([row[0] for row in rows], truncation=True, max_length=64, padding=True, return_tensors="pt")

    rows = read(train)
    for step in range(STEPS):
        batch = rows[step * BATCH : (step + 1) * BATCH]
        loss = model(**encode(batch), labels=torch.tensor([int(row[1]) for row in batch])).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    answers: list[int] = []
    with torch.no_grad():
        rows = read(dev)
        for begin in range(0, len(rows), 64):
            answers += model(**encode(rows[begin : begin + 64])).logits.argmax(dim=1).tolist()
    model.save_pretrained(output)
    tokenizer.save_pretrained(output)
    Path(output, "answers.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    main()

"""`python -m benchmarks.finetune`: fine-tuning beside peers; a table on stdout, JSON in --output.

What is measured is tokens a second that are no padding: of SST-2's sentences (`--task sst2`, at most 128 tokens) or of
SQuAD's windows (`--task squad1`, at most 384), 32 rows a step, on the CPU; word pieces and random weights are alike for
all. Peers are keras-hub's BertTextClassifier, which our environment has (SST-2 only: it has no span
predictor), and Hugging Face's Trainer, padded to the longest row of a batch, and (`huggingface_stock`) to the whole
length, as its examples do by default. PyTorch lives in an environment of its own, made once:

    python3.11 -m venv PEER
    PEER/bin/pip install 'torch==2.15.0' 'transformers[torch]==5.23.0'
    python -m benchmarks.finetune --task sst2 --data SST-2/train.tsv --vocabulary vocab.txt \\
        --torch_python PEER/bin/python
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import interleave as rounds
from benchmarks import measure, train_step
from benchmarks.peers.rows import BATCH_SIZE, Rows, write_rows

OURS = "bert_tf"
PEERS = ("keras_hub", "huggingface", "huggingface_stock")
LENGTHS = {"sst2": 128, "squad1": 384}


def rows_of(task_name: str, data: Path, vocabulary: Path, most_examples: int) -> Rows:
    """Returns the rows of a task's training file.

    Args:
        task_name: a key of `LENGTHS`.
        data: the file.
        vocabulary: uncased.
        most_examples: the first ones are taken.
    """
    import itertools

    from bert_tf.tasks.input_errors import InputErrors
    from bert_tf.tasks.registry import task_class
    from bert_tf.text.tokenizer import BertTokenizer
    from bert_tf.text.vocabulary import load_vocabulary

    task: Any = task_class(task_name)()
    examples = list(itertools.islice(task.read(data, InputErrors()), most_examples))
    found = task.fit_labels(examples).encode(examples, BertTokenizer(load_vocabulary(vocabulary)), LENGTHS[task_name])
    names = {"": "label", "start_logits": "start", "end_logits": "end"}
    targets = {names[output]: values for output, values in found.targets.items()}
    return Rows(found.token_ids, found.row_splits, found.first_lengths, targets, LENGTHS[task_name])


def contenders(size: str, precision: str, args: argparse.Namespace, rows: Path, work: Path) -> list[rounds.Contender]:
    """Returns ourselves and the peers that are asked for."""
    flags = {"size": size, "precision": precision, "rows": rows}
    commands = {OURS: train_step.command(sys.executable, "ours_finetune", args, output=work / "ours", **flags)}
    for peer in args.peers:
        if peer == "keras_hub":
            commands[peer] = train_step.command(sys.executable, "keras_hub_classifier", args, **flags)
        else:
            stock = {"stock": True} if peer.endswith("stock") else {}
            python = args.torch_python.absolute()
            line = train_step.command(python, "huggingface_trainer", args, output=work / peer, **flags, **stock)
            commands[peer] = line
    return [rounds.Contender(f"{name} {precision}", line, f"{OURS} {precision}") for name, line in commands.items()]


def run(args: argparse.Namespace, work: Path) -> None:
    """Measures every size and precision."""
    rows = rows_of(args.task, args.data, args.vocabulary, args.examples)
    write_rows(work / "rows.npz", rows)
    results = []
    for size in args.sizes:
        for precision in args.precisions:
            folder = work / f"{size}-{precision}"
            folder.mkdir()
            found = rounds.interleaved(
                contenders(size, precision, args, work / "rows.npz", folder),
                args.rounds, args.seconds, args.settle, args.warmup, folder,
            )  # fmt: skip
            table = rounds.summary(found)
            instructions = " ".join(train_step.instructions())
            measure.heading(
                f"Fine-tuning, {args.task}, {size}, {BATCH_SIZE} rows of at most {rows.max_length} tokens "
                f"(medians of {args.rounds} rounds, {args.threads} threads, {instructions})"
            )
            for line in train_step.rate_table(table, "tokens/s"):
                print(line, flush=True)
            results.append({"size": size, "precision": precision, "results": table})
    settings = {name: getattr(args, name) for name in ("task", "rounds", "seconds", "settle", "warmup", "threads")}
    mean = float(len(rows.token_ids) / len(rows))
    about = {"rows": len(rows), "tokens_a_row": mean, "max_length": rows.max_length, "results": results}
    measure.save(f"Fine-tuning {args.task}", settings | {"allocator": rounds.ALLOCATOR} | about, args.output)


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the arguments, what is left out filled in. Raises SystemExit where they do not go together."""
    parser = argparse.ArgumentParser(
        description=__doc__, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", choices=LENGTHS, required=True)
    parser.add_argument("--data", type=Path, required=True, help="the task's training file")
    parser.add_argument("--vocabulary", type=Path, required=True, help="uncased; 30,522 word pieces or fewer")
    parser.add_argument("--examples", type=int, default=20_000, help="the first ones of the file are taken")
    parser.add_argument("--sizes", nargs="+", default=["L4_H256", "base"], help="of models")
    parser.add_argument("--precisions", nargs="+", choices=("float32", "bfloat16"), default=["float32"])
    parser.add_argument("--peers", nargs="*", choices=PEERS, help="default: those that are there")
    parser.add_argument("--torch_python", type=Path, help="interpreter of PyTorch's environment")
    parser.add_argument("--rounds", type=int, default=measure.REPETITIONS, help="of every contender")
    parser.add_argument("--seconds", type=float, default=10, help="that the timed steps of a round take")
    parser.add_argument("--settle", type=int, default=20, help="untimed steps before the first round")
    parser.add_argument("--warmup", type=int, default=1, help="untimed steps at the beginning of a round")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="default: one a core")
    parser.add_argument("--output", type=Path, default=Path("runs/benchmarks"), help="where the JSON goes")
    args = parser.parse_args(argv)
    there = [peer for peer in PEERS if args.torch_python or not peer.startswith("huggingface")]
    args.peers = there if args.peers is None else args.peers
    args.peers = [peer for peer in args.peers if peer != "keras_hub" or args.task == "sst2"]
    for peer in args.peers:
        if peer not in there:
            parser.error(f"--peers {peer}: needs --torch_python.")
    return args


def main() -> None:
    """Measures the task that is asked for."""
    args = arguments()
    with tempfile.TemporaryDirectory(prefix="bert_tf_bench_") as work:
        run(args, Path(work))


if __name__ == "__main__":
    main()

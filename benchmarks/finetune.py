r"""`python -m benchmarks.finetune`: fine-tuning compared with peers; a table on stdout, JSON in --output.

Measures non-padding tokens per second on SST-2's sentences (`--task sst2`, at most 128 tokens) or SQuAD's windows
(`--task squad1`, at most 384), 32 rows per step, on the CPU. Word pieces and random weights are the same for all. The
peers are keras-hub's BertTextClassifier, which is in bert_tf's environment (SST-2 only: it has no span predictor), and
Hugging Face's Trainer, padded to the longest row of a batch or (`huggingface_stock`) to the full length, the default of
its examples. PyTorch needs an environment of its own:

    python3.11 -m venv PEER
    PEER/bin/pip install 'torch==2.15.0' 'transformers[torch]==5.23.0'
    python -m benchmarks.finetune --task sst2 --data SST-2/train.tsv --vocabulary vocab.txt \
        --torch_python PEER/bin/python
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import interleave, measure
from benchmarks.peers.rows import BATCH_SIZE, Rows, write_rows

OURS = "bert_tf"
PEERS = ("keras_hub", "huggingface", "huggingface_stock")
LENGTHS = {"sst2": 128, "squad1": 384}


def rows_of(task_name: str, data: Path, vocabulary: Path, most_examples: int) -> Rows:
    """Returns the rows of a task's training file.

    Args:
        task_name: name of the task, a key of `LENGTHS`.
        data: path of the training file.
        vocabulary: path of an uncased vocab.txt.
        most_examples: maximum number of examples, from the start of the file.
    """
    import itertools

    from bert_tf.tasks.input_errors import InputErrors
    from bert_tf.tasks.registry import task_class
    from bert_tf.text.tokenizer import BertTokenizer
    from bert_tf.text.vocabulary import load_vocabulary

    task: Any = task_class(task_name)()
    examples = list(itertools.islice(task.read(data, InputErrors()), most_examples))
    encoded = task.fit_labels(examples).encode(examples, BertTokenizer(load_vocabulary(vocabulary)), LENGTHS[task_name])
    names = {"": "label", "start_logits": "start", "end_logits": "end"}
    targets = {names[output]: values for output, values in encoded.targets.items()}
    return Rows(encoded.token_ids, encoded.row_splits, encoded.first_lengths, targets, LENGTHS[task_name])


def contenders(
    size: str, precision: str, args: argparse.Namespace, rows: Path, work: Path
) -> list[interleave.Contender]:
    """Returns bert_tf and the selected peers."""
    flags = {"size": size, "precision": precision, "rows": rows}
    commands = {OURS: interleave.command(sys.executable, "ours_finetune", args, output=work / "ours", **flags)}
    for peer in args.peers:
        if peer == "keras_hub":
            commands[peer] = interleave.command(sys.executable, "keras_hub_classifier", args, **flags)
        else:
            stock = {"stock": True} if peer.endswith("stock") else {}
            python = args.torch_python.absolute()
            line = interleave.command(python, "huggingface_trainer", args, output=work / peer, **flags, **stock)
            commands[peer] = line
    return [interleave.Contender(f"{name} {precision}", line, f"{OURS} {precision}") for name, line in commands.items()]


def run(args: argparse.Namespace, work: Path) -> None:
    """Measures every size and precision."""
    rows = rows_of(args.task, args.data, args.vocabulary, args.examples)
    write_rows(work / "rows.npz", rows)
    results = []
    for size in args.sizes:
        for precision in args.precisions:
            folder = work / f"{size}-{precision}"
            folder.mkdir()
            table = interleave.measure_all(contenders(size, precision, args, work / "rows.npz", folder), args, folder)
            interleave.heading(
                f"Fine-tuning, {args.task}, {size}, {BATCH_SIZE} rows of at most {rows.max_length} tokens", args
            )
            for line in interleave.rate_table(table, "tokens/s"):
                print(line, flush=True)
            results.append({"size": size, "precision": precision, "results": table})
    mean = float(len(rows.token_ids) / len(rows))
    about = {
        "task": args.task,
        "rows": len(rows),
        "tokens_a_row": mean,
        "max_length": rows.max_length,
        "results": results,
    }
    measure.save(f"Fine-tuning {args.task}", interleave.settings(args) | about, args.output)


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the arguments with defaults filled in. Raises SystemExit if they are inconsistent."""
    parser = measure.parser(__doc__)
    parser.add_argument("--task", choices=LENGTHS, required=True)
    parser.add_argument("--data", type=Path, required=True, help="training file of the task")
    parser.add_argument(
        "--vocabulary", type=Path, required=True, help="uncased vocab.txt of at most 30,522 word pieces"
    )
    parser.add_argument("--examples", type=int, default=20_000, help="maximum number of examples; default: %(default)s")
    parser.add_argument("--sizes", nargs="+", default=["L4_H256", "base"], help="model sizes; default: L4_H256 base")
    parser.add_argument("--precisions", nargs="+", choices=("float32", "bfloat16"), default=["float32"])
    parser.add_argument("--peers", nargs="*", choices=PEERS, help="peers to measure; default: all that are available")
    parser.add_argument("--torch_python", type=Path, help="Python interpreter of PyTorch's environment")
    interleave.add_arguments(parser, seconds=10, settle=20)
    args = parser.parse_args(argv)
    available = [peer for peer in PEERS if args.torch_python or not peer.startswith("huggingface")]
    args.peers = available if args.peers is None else args.peers
    args.peers = [peer for peer in args.peers if peer != "keras_hub" or args.task == "sst2"]
    for peer in args.peers:
        if peer not in available:
            parser.error(f"--peers {peer}: needs --torch_python.")
    return args


def main() -> None:
    """Measures the selected task."""
    args = arguments()
    with tempfile.TemporaryDirectory(prefix="bert_tf_bench_") as work:
        run(args, Path(work))


if __name__ == "__main__":
    main()

"""`bert-tf inspect PATH`: what a data directory, preset, run, SavedModel or TFRecord file holds."""

from __future__ import annotations

import argparse
import math
from collections import Counter
from pathlib import Path
from typing import Any

from bert_tf.commands.arguments import existing
from bert_tf.data.manifest import data_directories


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("path", type=Path, help="a data directory, preset, run, SavedModel or .tfrecord file")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Prints the description to stdout; returns the summary."""
    path = existing(args.path, "PATH")
    folders = data_directories(path)
    if folders:
        return {"output": str(path), **_data(folders)}
    summary = describe(path)
    for name, value in summary.items():
        if isinstance(value, dict):
            print(f"{name}:")
            for key, item in value.items():
                print(f"  {key}: {item}")
        else:
            print(f"{name}: {value}")
    return {"output": str(path), **summary}


def describe(path: Path) -> dict[str, Any]:
    """Returns what `path`, no data directory, holds, by name; `kind` says what it is.

    Raises:
        ValueError: where it is nothing that this project makes.
    """
    if path.is_file() and path.suffix == ".tfrecord":
        return _records([path])
    if (path / "config.json").is_file() or (path / "preset" / "config.json").is_file():
        return _preset(path)
    folders = [path, *sorted((p for p in path.glob("*") if p.name.isdigit()), key=lambda p: -int(p.name))]
    for folder in folders:
        if (folder / "saved_model.pb").is_file():
            return _saved_model(folder)
    records = sorted(path.glob("*.tfrecord"))
    if records:
        return _records(records)
    raise ValueError(f"{path}: neither a data directory, preset, run, SavedModel nor TFRecord file")


def _data(folders: list[Path]) -> dict[str, Any]:
    """Prints the report of every folder; returns its summary, or those of several by their names."""
    from bert_tf.data.report import describe_data
    from bert_tf.data.report_words import in_words

    reports = {folder.name: describe_data(folder, checksums=True) for folder in folders}
    kind = "pre-training data, every checksum matches"
    for name, report in reports.items():
        print(f"{name}: {kind}\n\n{in_words(report)}\n")
    summaries = {name: report.summary() for name, report in reports.items()}
    return {"kind": kind, **(next(iter(summaries.values())) if len(summaries) == 1 else summaries)}


def _preset(path: Path) -> dict[str, Any]:
    from bert_tf.config import to_dict
    from bert_tf.models import load_preset

    preset = load_preset(path)
    blocks: Counter[str] = Counter()
    for variable in preset.model.trainable_variables:
        blocks[variable.path.partition("/")[0]] += math.prod(variable.shape)
    return {
        "kind": f"preset of a {preset.kind}",
        "parameters": sum(blocks.values()),
        "parameters_by_block": dict(blocks),
        "model": to_dict(preset.config),
        "vocabulary_size": len(preset.vocabulary),
        "lowercase": preset.lowercase,
        "task": preset.task or {},
        "info": preset.info,
    }


def _saved_model(path: Path) -> dict[str, Any]:
    from bert_tf.export.metadata import signature_shapes

    summary: dict[str, Any] = {"kind": f"SavedModel, version {path.name}"}
    for name, sides in signature_shapes(path).items():
        summary[f"signature {name}"] = {
            side: ", ".join(f"{key} {shape}" for key, shape in tensors.items()) for side, tensors in sides.items()
        }
    return summary


def _records(paths: list[Path]) -> dict[str, Any]:
    import tensorflow as tf

    from bert_tf.data.records import read_shard

    examples: dict[str, int] = {}
    features: dict[str, str] = {}
    for path in paths:
        count = 0
        for record in read_shard(path):
            if not features:
                parsed = tf.train.Example.FromString(record)
                for name, feature in sorted(parsed.features.feature.items()):
                    kind = feature.WhichOneof("kind")
                    features[name] = f"{kind}[{len(getattr(feature, kind).value)}]"
            count += 1
        examples[path.name] = count
    return {"kind": "TFRecord files", "examples": examples, "features of the first": features}

"""`bert-tf inspect PATH`: describes a data directory, preset, run, checkpoint, SavedModel or TFRecord file."""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bert_tf.commands.inputs import check_path
from bert_tf.config.preset_names import preset_directory
from bert_tf.data.manifest import data_directories
from bert_tf.entry.printed import printable
from bert_tf.export.versions import version_folders

if TYPE_CHECKING:
    from bert_tf.conversion.checkpoint import Checkpoint

# Printed values of a longer list; the summary has all of them.
_SHOWN = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    kinds = "data directory, preset, run, checkpoint, SavedModel or .tfrecord file"
    parser.add_argument("path", type=Path, help=kinds)


def check(args: argparse.Namespace) -> None:
    """Checks the arguments; see `Command`."""
    path = preset_directory(args.path)
    if not _is_prefix(path):
        check_path(path, "PATH")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Prints the description to stdout; returns the summary."""
    path = args.path
    folders = data_directories(path)
    if folders:
        return {"output": str(path), **_data(folders)}
    summary = describe(path)
    for name, value in summary.items():
        if isinstance(value, dict):
            print(f"{name}:")
            for key, item in value.items():
                print(f"  {printable(key)}: {printable(item)}")
        elif isinstance(value, list):
            more = f" and {len(value) - _SHOWN} more" if len(value) > _SHOWN else ""
            print(f"{name}: {', '.join(map(printable, value[:_SHOWN])) or 'none'}{more}")
        else:
            print(f"{name}: {printable(value)}")
    return {"output": str(path), **summary}


def describe(path: Path) -> dict[str, Any]:
    """Returns the description of `path`, except data directories, by name; `kind` is its kind.

    Args:
        path: the file or directory.

    Raises:
        ValueError: if the format is unknown, or the file is damaged.
    """
    if path.is_file() and path.suffix == ".tfrecord":
        return _records([path])
    records = sorted(path.glob("*.tfrecord"))
    if records:
        return _records(records)
    versions = [folders[0] for folders in reversed(version_folders(path).values())] if path.is_dir() else []
    saved = next((folder for folder in (path, *versions) if (folder / "saved_model.pb").is_file()), None)
    # A SavedModel without assets.extra is not an export of this project and may be a checkpoint.
    is_export = saved is not None and (saved / "assets.extra").is_dir()
    summary = None if is_export else _checkpoint(path)
    if summary is None and saved is not None:
        summary = _saved_model(saved)
    if summary is not None:
        return summary
    raise ValueError(f"{path}: must be a data directory, preset, run, checkpoint, SavedModel or TFRecord file.")


def _data(folders: list[Path]) -> dict[str, Any]:
    """Prints the report of every directory; returns its summary, or a summary for each of several by name."""
    from bert_tf.reports.data.facts import describe_data
    from bert_tf.reports.data.words import in_words
    from bert_tf.storage.mirrors import is_mirror

    reports = {folder.name: describe_data(folder, checksums=True) for folder in folders}
    # Of data on a store, only the shards of the shown examples are fetched.
    compared = "the checksums of the shards read match" if is_mirror(folders[0]) else "every checksum matches"
    kind = f"pre-training data, {compared}"
    for name, report in reports.items():
        print(f"{name}: {kind}\n\n{in_words(report)}\n")
    summaries = {name: report.summary() for name, report in reports.items()}
    return {"kind": kind, **(next(iter(summaries.values())) if len(summaries) == 1 else summaries)}


def _is_prefix(path: Path) -> bool:
    """Returns True if `path` is the common prefix of several files, as in TensorFlow checkpoints."""
    folder = path.parent
    return folder.is_dir() and any(entry.name.startswith(f"{path.name}.") for entry in folder.iterdir())


def _checkpoint(path: Path) -> dict[str, Any] | None:
    """Returns the description of a checkpoint of any format without reading its arrays; None for other files."""
    from bert_tf.conversion import Options, read_checkpoint
    from bert_tf.conversion.formats.registry import recognize

    path = preset_directory(path)
    form = recognize(path)
    if form is None and (path / "config.json").is_file():
        form = "preset"
    if form is None:
        return None
    if form == "preset" and "only_here" in (summary := _preset(path)):
        return summary
    summary = _describe_checkpoint(read_checkpoint(path, form, Options(padded_vocabulary=True)))
    return summary if form != "preset" else summary | _preset(path)


def _describe_checkpoint(checkpoint: Checkpoint) -> dict[str, Any]:
    """Returns the description of a checkpoint; blocks of parameters have the names of a preset."""
    from bert_tf.conversion.formats.preset import TABLE
    from bert_tf.conversion.tensors import expected_shapes

    blocks: Counter[str] = Counter()
    for name, shape in expected_shapes(checkpoint.config, checkpoint.heads).items():
        blocks[TABLE.name(name).partition("/")[0]] += math.prod(shape)
    vocabulary = checkpoint.vocabulary
    return {
        "kind": f"checkpoint of the form {checkpoint.form}",
        "bytes": sum(path.stat().st_size for path in _files(checkpoint.path)),
        "dtype": checkpoint.dtype,
        "parameters": sum(blocks.values()),
        "parameters_by_block": dict(blocks),
        "model": dataclasses.asdict(checkpoint.config),
        "vocabulary_size": None if vocabulary is None else len(vocabulary.without_padding()),
        "lowercase": checkpoint.lowercase,
        "heads": checkpoint.heads.names(),
        "labels": None if checkpoint.labels is None else list(checkpoint.labels),
        "step": checkpoint.step,
        "left_out": list(checkpoint.left_out),
        "info": dict(checkpoint.info),
    }


def _files(path: Path) -> list[Path]:
    """Returns the files under a directory except hidden ones, or the files whose names begin with that of `path`."""
    if path.is_dir():
        files = (file for file in path.rglob("*") if not any(p.startswith(".") for p in file.relative_to(path).parts))
        return [file for file in files if file.is_file()]
    if path.is_file():
        return [path]
    return [file for file in path.parent.iterdir() if file.name.startswith(f"{path.name}.") and file.is_file()]


def _preset(directory: Path) -> dict[str, Any]:
    from bert_tf.config import to_dict
    from bert_tf.conversion.formats.preset import only_ours
    from bert_tf.models.preset_sources import open_preset

    source = open_preset(directory)
    header = source.header
    summary = {"kind": f"preset of a {header.kind}", "task": source.task or {}, "info": header.info}
    return summary | ({"model": to_dict(header.config), "only_here": only_ours(header)} if only_ours(header) else {})


def _saved_model(path: Path) -> dict[str, Any]:
    from bert_tf.export.graphs import outside_operations
    from bert_tf.export.metadata import read_meta_graph, signature_shapes
    from bert_tf.export.verify.tf_serving import serving_releases
    from bert_tf.export.warmup import read_warmup

    summary: dict[str, Any] = {"kind": f"SavedModel, version {path.name}"}
    try:
        summary["warm-up requests"] = sum(1 for _ in read_warmup(path))
    except ValueError as error:
        summary["warm-up requests"] = f"damaged: {error}"
    summary["operations beyond the model"] = outside_operations(read_meta_graph(path))
    summary["TF Serving"] = serving_releases(path)
    for name, sides in signature_shapes(path).items():
        summary[f"signature {name}"] = {
            side: ", ".join(f"{key} {shape}" for key, shape in tensors.items()) for side, tensors in sides.items()
        }
    return summary


def _records(paths: list[Path]) -> dict[str, Any]:
    import tensorflow as tf

    from bert_tf.data.tfrecord.shards import read_shard

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

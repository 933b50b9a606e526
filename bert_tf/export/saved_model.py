"""Exports a preset as a version of a SavedModel for TF Serving."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import tensorflow as tf
from keras.export import ExportArchive

from bert_tf.config import save_json, to_dict
from bert_tf.config.files import only_writer
from bert_tf.export.digests import FILES, file_digests
from bert_tf.export.kinds.base import Signatures
from bert_tf.export.metadata import METHODS, MODEL_CARD, WARMUP, signature_shapes
from bert_tf.export.precision import load_in_precision
from bert_tf.export.signatures import signatures_of
from bert_tf.export.verify.comparison import RECORDING, Case, write_recording
from bert_tf.export.verify.golden_outputs import check_arrangement, differences, record
from bert_tf.export.verify.operations import text_operations
from bert_tf.export.verify.sample_requests import warmup_sample
from bert_tf.export.verify.tf_serving import check_release, serving_releases
from bert_tf.export.verify.tolerances import FLOAT32, relative_tolerance
from bert_tf.export.versions import STAGING_PREFIX, check_model_dir, version_folders
from bert_tf.export.warmup import write_warmup
from bert_tf.text.vocabulary import save_vocabulary

logger = logging.getLogger(__name__)

Evaluate = Callable[[Path], dict[str, Any]]


def export_preset(
    preset_dir: str | Path,
    model_dir: str | Path,
    *,
    version: int | None = None,
    max_sequence_length: int | None = None,
    top_k: int = 5,
    precision: str = FLOAT32,
    evaluate: Evaluate | None = None,
    for_serving: str | None = None,
) -> Path:
    """Exports a preset as the next version of a SavedModel, with its tokenizer in the graph.

    The layers are arranged for inference; in float32 the result is compared with the model as trained. The version is
    written to a staging folder, loaded in a new process and compared with the model itself. Only if they agree is it
    renamed to its number. A killed process leaves at most a `.staging-<version>`, which the next export removes.

    Args:
        preset_dir: preset of any kind, run, `RUN@STEP`, or checkpoint of another program; see `load_preset`.
        model_dir: `saved_models/<name>`; created if it does not exist.
        version: version number; defaults to the next free one.
        max_sequence_length: maximum number of tokens; longer texts are truncated, longer ids are rejected. Defaults to
            that of the task, else of the model.
        top_k: fill-mask: number of candidates for each [MASK].
        precision: one of `precision.PRECISIONS`; inputs and outputs have the same dtypes in all.
        evaluate: called with the folder of the verified version; its result is the model card's `evaluation`.
        for_serving: release of TF Serving that must load the version, one of `tf_serving.RELEASES`, such as `2.18`.
            The model card names all releases that load it.

    Returns:
        `<model_dir>/<version>`.

    Raises:
        ValueError: for an unreadable preset, a length, `top_k` or `precision` out of range, an existing version, a
            `model_dir` that contains other files, or an operation that TF Serving, or the release, does not link.
        OSError: if the disk is full or not writable.
        RuntimeError: if another process exports to `model_dir`, or the outputs of the exported model differ.

    Example:
        >>> version = bert_tf.export_preset("runs/my_task", "saved_models/new")
        >>> version.name
        '1'
        >>> import tensorflow_text  # operations of the tokenizer
        >>> predict = tf.saved_model.load(str(version)).signatures["serving_default"]
        >>> sorted(predict(text=tf.constant(["a good film"])))
        ['label', 'probabilities']
    """
    check_model_dir(model_dir)
    model_dir = Path(model_dir)
    if version is not None and version < 1:
        raise ValueError(f"`version` must be at least 1. Received: {version}")
    if for_serving is not None:
        check_release(for_serving)
    signatures_in = functools.partial(_signatures_in, preset_dir, max_sequence_length, top_k)
    logger.info("1 of 4: load %s in %s and arrange its layers for inference", preset_dir, precision)
    signatures = signatures_in(precision, arranged=True)
    model_dir.mkdir(parents=True, exist_ok=True)
    with only_writer(model_dir, "writing an export to"):
        number = _next_version(model_dir, version)
        kind, names = signatures.preset.kind, ", ".join(signatures.served)
        logger.info("2 of 4: compute sample outputs of the %s (%s) and of the model as trained", kind, names)
        cases, comparison = _record_and_compare(signatures, signatures_in, precision)
        card = {"source_preset": str(preset_dir), "precision": precision} | _model_card(signatures) | comparison
        with _staged(model_dir, number) as staging:
            logger.info("3 of 4: write the SavedModel")
            _fill(staging, signatures, cases, card, evaluate, for_serving)
    logger.info("exported %s as version %d of %s", preset_dir, number, model_dir)
    return model_dir / str(number)


def _signatures_in(
    preset_dir: str | Path, length: int | None, top_k: int, precision: str, arranged: bool = False
) -> Signatures:
    preset = load_in_precision(preset_dir, precision, arranged=arranged)
    return signatures_of(preset, max_sequence_length=length, top_k=top_k)


def _record_and_compare(
    signatures: Signatures, signatures_in: Callable[..., Signatures], precision: str
) -> tuple[list[Case], dict[str, Any]]:
    """Returns the golden outputs of the exported model, and the card's comparison with the model as trained."""
    trained = signatures_in(FLOAT32)
    cases, as_trained = record(signatures, precision), record(trained, FLOAT32)
    # The arranged model pads its kernels.
    facts = {"parameters": trained.preset.model.count_params()}
    if precision == FLOAT32:
        check_arrangement(cases, as_trained)
        return cases, facts
    check_arrangement(record(signatures_in(FLOAT32, arranged=True), FLOAT32), as_trained)
    return cases, facts | {"difference_to_float32": differences(cases, as_trained)}


def _next_version(model_dir: Path, version: int | None) -> int:
    """Removes staging folders of killed exports and returns the version to write. Raises ValueError if it exists."""
    for stale in model_dir.glob(f"{STAGING_PREFIX}*"):
        shutil.rmtree(stale)
    existing = version_folders(model_dir)
    if version in existing:
        raise ValueError(f"version {version} exists already: {existing[version][0]}")
    return max(existing, default=0) + 1 if version is None else version


@contextlib.contextmanager
def _staged(model_dir: Path, version: int) -> Iterator[Path]:
    """Yields a staging folder that is renamed to the version, or removed if the block fails."""
    staging = model_dir / f"{STAGING_PREFIX}{version}"
    try:
        yield staging
        staging.rename(model_dir / str(version))
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise


def _fill(
    staging: Path,
    signatures: Signatures,
    cases: list[Case],
    card: dict[str, Any],
    evaluate: Evaluate | None,
    for_serving: str | None,
) -> None:
    """Writes the SavedModel, its golden outputs and its model card."""
    _write(signatures, staging)
    relative = relative_tolerance(card["precision"], signatures.preset.config)
    write_recording(staging / RECORDING, cases, relative)
    card |= {"signatures": signature_shapes(staging), "text_operations": text_operations(staging)}
    card["tf_serving"] = serving_releases(staging, for_serving)
    logger.info("4 of 4: load the SavedModel in a new process and compare its outputs")
    card |= _verified(staging)
    if evaluate is not None:
        logger.info("evaluate the preset and the SavedModel")
        card["evaluation"] = evaluate(staging)
    save_json(card | {FILES: file_digests(staging)}, staging / MODEL_CARD)


def _write(signatures: Signatures, staging: Path) -> None:
    # Endpoints bring the variables that they read; `track` would store the model's variables a second time.
    archive = ExportArchive()
    for name, endpoint in signatures.served.items():
        archive.add_endpoint(name, endpoint.function, input_signature=list(endpoint.inputs))
    # An exported model is not trained, and a server would load the gradients too.
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    try:
        archive.write_out(str(staging), options, verbose=False)
    except tf.errors.OpError as error:
        raise OSError(f"{staging}: cannot be written: {error.message}") from error
    # Keras sets the method name Predict for all signatures.
    updater = tf.compat.v1.saved_model.signature_def_utils.MethodNameUpdater(str(staging))
    for name in METHODS.keys() & signatures.served.keys():
        updater.replace_method_name(name, METHODS[name])
    updater.save()
    (staging / MODEL_CARD).parent.mkdir()
    save_vocabulary(signatures.vocabulary, staging / MODEL_CARD.parent / signatures.vocabulary.file_name)
    sample = warmup_sample(signatures)
    requests = (
        (name, {str(spec.name): sample[str(spec.name)] for spec in endpoint.inputs})
        for name, endpoint in signatures.served.items()
    )
    # The parent folder is the name of the model on the server.
    write_warmup(staging / WARMUP, staging.resolve().parent.name, requests)


def _verified(staging: Path) -> dict[str, Any]:
    """Verifies the version in a new process and returns the differences. Raises RuntimeError if one is too large."""
    command = [sys.executable, "-m", "bert_tf.export.verify", str(staging)]
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if result.returncode != 0:
        reasons = "\n".join(result.stderr.strip().splitlines()[-20:])
        raise RuntimeError(
            f"the outputs of the exported model, loaded in a new process, must equal those of the preset; nothing was "
            f"exported. Received: exit status {result.returncode}\n{reasons}"
        )
    return json.loads(result.stdout.splitlines()[-1])


def _model_card(signatures: Signatures) -> dict[str, Any]:
    preset = signatures.preset
    return {
        "kind": preset.kind,
        "task": (preset.task or {}).get("task"),
        "exported": datetime.now(UTC).isoformat(timespec="seconds"),
        "model": to_dict(preset.config),
        "labels": signatures.labels,
        "tag_scheme": signatures.tag_scheme,
        "lowercase": preset.lowercase,
        "max_sequence_length": signatures.max_sequence_length,
        "top_k": signatures.top_k,
        "vocabulary_sha256": preset.vocabulary.fingerprint,
        "tokenizer": {
            "file": str(MODEL_CARD.parent / preset.vocabulary.file_name),
            "in_graph": signatures.tokenizer.in_graph,
        },
        "info": preset.info,
        "versions": {
            **{name: metadata.version(name) for name in ("bert-tf", "keras", "tensorflow-text")},
            # Not of the metadata, because the distribution may be tensorflow-tpu.
            "tensorflow": tf.__version__,
        },
    }

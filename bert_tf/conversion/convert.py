"""Converts a checkpoint to another format; the target is written only after both have been compared."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bert_tf.config import local_path, save_json
from bert_tf.config.files import replace_directory
from bert_tf.config.preset_names import preset_directory
from bert_tf.conversion.checkpoint import Checkpoint, Options
from bert_tf.conversion.formats.registry import form, read_checkpoint
from bert_tf.conversion.tensors import ConversionError, Tensor
from bert_tf.conversion.verify.outputs import Peers, answers
from bert_tf.conversion.verify.parity import Parity, compare
from bert_tf.conversion.verify.probe_inputs import fixed_inputs
from bert_tf.models.presets import PARITY_NAME
from bert_tf.text.byte_pair_vocabulary import BytePairVocabulary

logger = logging.getLogger(__name__)
_SECONDS_BETWEEN_LINES = 2.0


@dataclass(frozen=True)
class Conversion:
    """The result of a conversion: both checkpoints and the comparison of their outputs."""

    source: Checkpoint
    target: Checkpoint
    parity: Parity


def convert(
    source: str | Path,
    target: str | Path,
    target_form: str,
    *,
    source_form: str | None = None,
    options: Options | None = None,
    peers: Peers | None = None,
) -> Conversion:
    """Converts a checkpoint to another format.

    The target is written to a staging directory, read again, and opened by the program of its format if that is
    installed. Both checkpoints compute outputs for the same inputs. The directory is renamed only if the outputs agree,
    and holds a report of the comparison.

    Args:
        source: checkpoint of any of `formats.registry.FORMS`; `RUN@STEP` for a checkpoint of a run.
        target: directory to write to, which must be missing or empty.
        target_form: format of the target, one of `formats.registry.FORMS`.
        source_form: format of the source; None detects it.
        options: settings for everything that the source does not define.
        peers: locations of the programs that compute the outputs.

    Returns:
        Both checkpoints and their parity.

    Raises:
        ConversionError: if the source cannot be read, the target's format cannot hold it, or the outputs differ by more
            than `parity.TOLERANCE`. Nothing is left at `target`.
        ConfigError: for a URL.

    Example:
        >>> conversion = bert_tf.convert("runs/bert", "bert_hf", "huggingface")
        >>> conversion.target.form, conversion.parity.max_abs_difference < 1e-4
        ('huggingface', True)
    """
    source, target = preset_directory(source), local_path(target)
    options, peers = options or Options(), peers or Peers({})
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        # Written last, and the directory gets its name after that.
        if (target / PARITY_NAME).is_file():
            raise ConversionError(
                f"{target}: holds a complete conversion, which {PARITY_NAME} describes. Use it, or remove it to "
                "convert again."
            )
        raise ConversionError(f"{target}: must be missing or an empty directory. Choose another one, or remove it.")
    checkpoint = read_checkpoint(source, source_form, options)
    _check_body(checkpoint, target_form)
    _check_vocabulary(checkpoint, target_form)
    _check_head(checkpoint, target_form)
    back = Options(lowercase=checkpoint.lowercase, padded_vocabulary=True)
    result: dict[str, Any] = {}

    def write(staging: Path) -> None:
        logger.info("writing %s as %s", source, target_form)
        lost = form(target_form).write(watched(checkpoint), staging, options)
        written = read_checkpoint(staging, target_form, back)
        result["parity"] = _compared(checkpoint, written, lost, peers)
        save_json(result["parity"].report(checkpoint, written), staging / PARITY_NAME)
        if result["parity"].faults:
            raise ConversionError(
                f"{source}: the outputs in {target_form} differ from those of the source; nothing was written:\n  "
                + "\n  ".join(result["parity"].faults)
            )

    replace_directory(target, write)
    return Conversion(checkpoint, read_checkpoint(target, target_form, back), result["parity"])


def _check_body(checkpoint: Checkpoint, target_form: str) -> None:
    differences = checkpoint.config.differences_from_bert
    is_modern = checkpoint.config.body == "modern"
    if not differences or target_form == "preset" or (target_form == "huggingface" and is_modern):
        return
    hint = " Encoders of the body `modern` can be converted to huggingface." if is_modern else ""
    raise ConversionError(
        f"{checkpoint.path}: {target_form} holds BERT's own encoder only. Received: an encoder with {differences}."
        f"{hint}"
    )


def _check_vocabulary(checkpoint: Checkpoint, target_form: str) -> None:
    if isinstance(checkpoint.vocabulary, BytePairVocabulary) and target_form not in ("preset", "huggingface"):
        raise ConversionError(
            f"{checkpoint.path}: {target_form} holds word pieces only. Received: a byte-level BPE. Convert it to "
            "huggingface or to a preset."
        )


def _check_head(checkpoint: Checkpoint, target_form: str) -> None:
    config = checkpoint.config
    differs = config.mlm_head != (config.activation, config.layer_norm_epsilon)
    if checkpoint.heads.masked_lm and differs and target_form not in ("preset", "keras_hub"):
        raise ConversionError(
            f"{checkpoint.path}: the masked language model's head must have the encoder's activation and epsilon, "
            f"{config.activation} and {config.layer_norm_epsilon}, in {target_form}. Received: {config.mlm_head[0]} "
            f"and {config.mlm_head[1]}"
        )


def _compared(source: Checkpoint, target: Checkpoint, lost: list[str], peers: Peers) -> Parity:
    inputs = fixed_inputs(source.config)
    sides = []
    for checkpoint in (source, target):
        result = answers(checkpoint, inputs, peers)
        logger.info("outputs of %s computed by %s", checkpoint.form, result.by)
        sides.append((checkpoint, result))
    return compare(sides[0], sides[1], inputs, lost)


def watched(checkpoint: Checkpoint, clock: Callable[[], float] = time.monotonic) -> Checkpoint:
    """Returns the checkpoint with tensors that log the progress of reading: count, rate and time left."""
    parameters = checkpoint.parameters()
    count = elements = 0
    began = reported = clock()

    def read(tensor: Tensor) -> np.ndarray:
        nonlocal count, elements, reported
        array = tensor.read()
        count += 1
        elements += array.size
        now = clock()
        if now - reported >= _SECONDS_BETWEEN_LINES:
            reported = now
            rate = elements / (now - began)
            logger.info(
                "  %d/%d tensors, %.1f of %.1f million parameters, %.1f million/s, eta %.0f s",
                *(count, len(checkpoint.tensors), elements / 1e6, parameters / 1e6, rate / 1e6),
                max(0, parameters - elements) / rate,
            )
        return array

    tensors = {name: replace(tensor, read=partial(read, tensor)) for name, tensor in checkpoint.tensors.items()}
    return replace(checkpoint, tensors=tensors)

"""From one form of a checkpoint to another; the target appears only once both have been compared."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bert_tf.config import local_path, save_json
from bert_tf.conversion.checkpoint import Checkpoint
from bert_tf.conversion.formats.registry import form, read_checkpoint
from bert_tf.conversion.options import Options
from bert_tf.conversion.progress import watched
from bert_tf.conversion.tensors import ConversionError
from bert_tf.conversion.verify.outputs import Peers, answers
from bert_tf.conversion.verify.parity import Parity, compare
from bert_tf.conversion.verify.probe_inputs import fixed_inputs
from bert_tf.models.preset_files import replace_directory
from bert_tf.models.presets import PARITY_NAME

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Conversion:
    """What was converted: both sides, and how far they lie apart."""

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
    """Writes a checkpoint in another form.

    The target is written beside its place, read again, opened by the program it is meant for where that is installed,
    asked the same inputs as the source, and renamed only when the answers agree. The report stands in it.

    Args:
        source: a checkpoint of any of `forms.FORMS`.
        target: a directory that is missing or empty.
        target_form: one of `forms.FORMS`.
        source_form: of the source; None recognizes it.
        options: what the source does not say.
        peers: where the programs are that the forms belong to.

    Raises:
        ConversionError: where the source cannot be read, the target's form cannot hold it, or the answers differ by
            more than `parity.TOLERANCE`; nothing is left at `target`.
        ConfigError: for a URL.
    """
    source, target = local_path(source), local_path(target)
    options, peers = options or Options(), peers or Peers({})
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConversionError(f"{target}: must be missing or an empty directory.")
    checkpoint = read_checkpoint(source, source_form, options)
    _check_head(checkpoint, target_form)
    back = Options(lowercase=checkpoint.lowercase, padded_vocabulary=True)
    made: dict[str, Any] = {}

    def write(staging: Path) -> None:
        logger.info("writing %s as %s", source, target_form)
        lost = form(target_form).write(watched(checkpoint), staging, options)
        written = read_checkpoint(staging, target_form, back)
        made["parity"] = _compared(checkpoint, written, lost, peers)
        save_json(made["parity"].report(checkpoint, written), staging / PARITY_NAME)
        if made["parity"].faults:
            raise ConversionError(
                f"{source}: {target_form} does not answer as the source does; nothing was written:\n  "
                + "\n  ".join(made["parity"].faults)
            )

    replace_directory(target, write)
    return Conversion(checkpoint, read_checkpoint(target, target_form, back), made["parity"])


def _check_head(checkpoint: Checkpoint, target_form: str) -> None:
    config = checkpoint.config
    own = config.mlm_head != (config.activation, config.layer_norm_epsilon)
    if checkpoint.heads.masked_lm and own and target_form not in ("preset", "keras_hub"):
        raise ConversionError(
            f"{checkpoint.path}: the head of its masked language model must have the encoder's activation and epsilon, "
            f"{config.activation} and {config.layer_norm_epsilon}, in {target_form}. Received: {config.mlm_head[0]} "
            f"and {config.mlm_head[1]}"
        )


def _compared(source: Checkpoint, target: Checkpoint, lost: list[str], peers: Peers) -> Parity:
    inputs = fixed_inputs(source.config)
    sides = []
    for checkpoint in (source, target):
        answered = answers(checkpoint, inputs, peers)
        logger.info("%s answered by %s", checkpoint.form, answered.by)
        sides.append((checkpoint, answered))
    return compare(sides[0], sides[1], inputs, lost)

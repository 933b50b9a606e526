"""Reads bert_tf's input pipeline alone, as fast as possible."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from benchmarks.peers import batches
from benchmarks.peers.session import Session, limit_threads
from bert_tf.data.input.tf import pretraining_dataset
from bert_tf.data.manifest import read_manifest, write_manifest
from bert_tf.data.schema import MANIFEST_NAME


def with_mask_unit(data: Path, mask_unit: str, folder: Path) -> Path:
    """Creates a data directory with the records of `data` and another mask unit.

    Args:
        data: data directory of dynamic records, which hold no masks.
        mask_unit: mask unit, a value of `DataConfig.mask_unit`.
        folder: new folder to create.

    Returns:
        `folder`.

    Raises:
        ValueError: for static records.
    """
    manifest = read_manifest(data)
    if manifest.config.masking != "dynamic":
        raise ValueError(f"{data}: must hold dynamic records. Received: {manifest.config.masking}")
    folder.mkdir(parents=True)
    for file in data.iterdir():
        if file.name != MANIFEST_NAME:
            (folder / file.name).symlink_to(file.absolute())
    write_manifest(
        dataclasses.replace(manifest, config=dataclasses.replace(manifest.config, mask_unit=mask_unit)), folder
    )
    return folder


def main() -> None:
    """Reads batches until stdin is closed."""
    parser = batches.arguments(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="data directory of dynamic records")
    parser.add_argument("--mask_unit", default="piece", help="piece, whole_word or span; default: %(default)s")
    parser.add_argument("--output", type=Path, required=True, help="new folder that replaces --data")
    args = parser.parse_args()
    limit_threads(args.threads)
    session = Session()
    data = with_mask_unit(args.data, args.mask_unit, args.output)
    for _ in pretraining_dataset(data, "train", batch_size=batches.SEQUENCES, seed=0):
        session.after_step(units=batches.SEQUENCES)


if __name__ == "__main__":
    main()

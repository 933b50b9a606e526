"""keras-hub's `BertTextClassifier`, trained with Keras's `fit` and padded to a fixed length, its default."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import keras
import keras_hub
import numpy as np
import tensorflow as tf

from benchmarks.peers import batches
from benchmarks.peers.keras_hub import build_backbone
from benchmarks.peers.rows import BATCH_SIZE, LEARNING_RATE, Rows, read_rows
from benchmarks.peers.session import Session, limit_threads

_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


class Listening(keras.callbacks.Callback):
    """Reports every step to the session with the tokens of its batch, in the order of the steps."""

    def __init__(self, session: Session, tokens: Iterator[int]) -> None:
        super().__init__()
        self._session, self._tokens = session, tokens

    def on_train_batch_end(self, batch, logs=None):
        """Reports one step."""
        self._session.after_step(units=next(self._tokens))


def padded(rows: Rows) -> dict[str, np.ndarray]:
    """Returns the inputs of all rows, int32 (N, S)."""
    lengths = np.diff(rows.row_splits)
    present = np.arange(rows.max_length) < lengths[:, None]
    token_ids = np.zeros(present.shape, np.int32)
    token_ids[present] = rows.token_ids
    second = present & (np.arange(rows.max_length) >= rows.first_lengths[:, None])
    return {
        "token_ids": token_ids,
        "segment_ids": second.astype(np.int32),
        "padding_mask": present.astype(np.int32),
    }


def build_model(size: str, rows: Rows) -> keras.Model:
    """Builds the classifier, compiled with AdamW."""
    backbone = build_backbone(batches.config_of(size))
    model = keras_hub.models.BertTextClassifier(backbone, num_classes=rows.num_labels, preprocessor=None)
    optimizer = keras.optimizers.AdamW(LEARNING_RATE, weight_decay=batches.WEIGHT_DECAY, global_clipnorm=1.0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # XLA, Keras's default, is slower on a CPU.
    model.compile(optimizer, loss, jit_compile=False)
    return model


def main() -> None:
    """Trains until stdin is closed."""
    parser = batches.arguments(__doc__)
    parser.add_argument("--rows", type=Path, required=True, help="file of `rows.write_rows`")
    args = parser.parse_args()
    limit_threads(args.threads)
    keras.config.set_dtype_policy(_POLICIES[args.precision])
    session, rows = Session(), read_rows(args.rows)
    inputs = padded(rows)
    order = np.random.default_rng(0).permutation(len(rows))
    per_pass = len(rows) // BATCH_SIZE

    def tokens() -> Iterator[int]:
        while True:
            for batch in order[: per_pass * BATCH_SIZE].reshape(per_pass, BATCH_SIZE):
                yield int(inputs["padding_mask"][batch].sum())

    arrays = ({name: values[order] for name, values in inputs.items()}, rows.targets["label"][order])
    dataset = tf.data.Dataset.from_tensor_slices(arrays).batch(BATCH_SIZE, drop_remainder=True).repeat().prefetch(2)
    model = build_model(args.size, rows)
    session.tell(parameters=model.count_params())
    model.fit(dataset, steps_per_epoch=batches.STEPS, verbose=0, callbacks=[Listening(session, tokens())])


if __name__ == "__main__":
    main()

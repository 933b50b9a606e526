"""keras-hub's encoder and masked language model head, trained with Keras's `fit`."""

from __future__ import annotations

import keras
import keras_hub
import tensorflow as tf

from benchmarks.peers import batches
from benchmarks.peers.session import Session, limit_threads
from bert_tf.config import BertConfig

_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


class Rounds(keras.callbacks.Callback):
    """Reports every step to the session."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    def on_train_batch_end(self, batch, logs=None):
        """Reports one step; the loss is the mean of all steps so far."""
        self._session.after_step(float(logs["loss"]))


def build_backbone(config: BertConfig) -> keras.Model:
    """Builds the encoder."""
    return keras_hub.models.BertBackbone(
        vocabulary_size=config.vocabulary_size,
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        hidden_dim=config.hidden_dim,
        intermediate_dim=config.intermediate_dim,
        dropout=config.dropout,
        max_sequence_length=config.max_sequence_length,
        num_segments=config.num_segments,
    )


def build_model(config: BertConfig) -> keras.Model:
    """Builds the encoder with both heads; the logits have the policy's compute dtype."""
    backbone = build_backbone(config)
    inputs = dict(backbone.input)
    inputs["mask_positions"] = keras.Input((None,), dtype="int32", name="mask_positions")
    encoded = backbone(backbone.input)
    initializer = keras.initializers.TruncatedNormal(stddev=config.initializer_range)
    masked_lm = keras_hub.layers.MaskedLMHead(
        token_embedding=backbone.token_embedding,
        intermediate_activation=lambda values: keras.activations.gelu(values, approximate=True),
        layer_norm_epsilon=config.layer_norm_epsilon,
        kernel_initializer=initializer,
        name="mlm",
    )(encoded["sequence_output"], inputs["mask_positions"])
    next_sentence = keras.layers.Dense(2, kernel_initializer=initializer, name="nsp")(encoded["pooled_output"])
    return keras.Model(inputs, {"mlm": masked_lm, "nsp": next_sentence})


def compile_model(model: keras.Model, xla: bool) -> None:
    """Compiles the model with the optimizer and the losses of all contenders.

    Args:
        model: model of `build_model`.
        xla: whether to compile the step with XLA, which is Keras's default but slower on a CPU.
    """
    optimizer = keras.optimizers.AdamW(
        batches.LEARNING_RATE,
        weight_decay=batches.WEIGHT_DECAY,
        epsilon=batches.EPSILON,
        global_clipnorm=batches.CLIP_NORM,
    )
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    losses = {
        name: keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
        for name in ("mlm", "nsp")
    }
    model.compile(optimizer, losses, jit_compile="auto" if xla else False)


def dataset() -> tf.data.Dataset:
    """Returns the shared batches, repeated endlessly."""
    arrays = batches.batches()
    inputs = {name: arrays[name] for name in ("token_ids", "segment_ids", "padding_mask", "mask_positions")}
    targets = {"mlm": arrays["mask_ids"], "nsp": arrays["next_sentence_labels"]}
    weights = {"mlm": arrays["mask_weights"], "nsp": arrays["next_sentence_weights"]}
    return tf.data.Dataset.from_tensor_slices((inputs, targets, weights)).repeat().prefetch(2)


def main() -> None:
    """Trains until stdin is closed."""
    parser = batches.arguments(__doc__)
    parser.add_argument("--xla", action="store_true", help="compilation with XLA, Keras's default")
    args = parser.parse_args()
    limit_threads(args.threads)
    session = Session()
    keras.utils.set_random_seed(0)
    keras.config.set_dtype_policy(_POLICIES[args.precision])
    model = build_model(batches.config_of(args.size))
    compile_model(model, args.xla)
    session.tell(parameters=sum(variable.shape.num_elements() for variable in model.trainable_weights))
    model.fit(dataset(), steps_per_epoch=batches.STEPS, verbose=0, callbacks=[Rounds(session)])


if __name__ == "__main__":
    main()

from __future__ import annotations

import keras
import numpy as np

from bert_tf.models import BertBackbone, BertPretrainer
from tests.support.models.reference_bert import TINY, random_inputs


def test_pretrainer_learns_with_keras_fit():
    keras.utils.set_random_seed(0)
    model = BertPretrainer(BertBackbone(TINY))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-2), loss={"mlm_logits": loss, "nsp_logits": loss})
    inputs = random_inputs(batch=8)
    targets = {"mlm_logits": inputs["mask_positions"] + 5, "nsp_logits": np.arange(8) % 2}
    weights = {"mlm_logits": np.ones((8, 4), "float32"), "nsp_logits": np.ones(8, "float32")}
    history = model.fit(inputs, targets, sample_weight=weights, epochs=8, batch_size=8, verbose=0).history
    assert history["loss"][-1] < 0.8 * history["loss"][0]

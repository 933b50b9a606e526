from __future__ import annotations

import pytest

from bert_tf.config.data import DataConfig
from bert_tf.data.input.bins import bin_widths
from bert_tf.training.loop.compiled_shapes import CompiledShapes


def test_many_shapes_are_named_once_with_the_setting_to_change(caplog):
    shapes = CompiledShapes()
    for length in range(1, 17):
        shapes.add(f"32x{length}")
        shapes.add(f"32x{length}")
    assert len(shapes) == 16
    assert caplog.text == ""
    for length in range(17, 20):
        shapes.add(f"32x{length}")
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    for part in ("32x1,", "32x17.", "`training.padding`", "`training.jit_compile=false`"):
        assert part in record.getMessage()


@pytest.mark.parametrize("lengths", [(128, 512), (8, 100), (33, 511)])
def test_length_bins_of_two_lengths_give_no_warning(lengths, caplog):
    shapes = CompiledShapes()
    for length in lengths:
        for width in bin_widths(DataConfig(max_seq_length=length, max_predictions_per_seq=1)):
            shapes.add(f"32x{width}")
    assert caplog.text == ""

"""The table in the package equals the output of its builder."""

from __future__ import annotations

import numpy as np
import pytest

from bert_tf.text import build_table
from tests.support.text.samples import SAME_UNICODE


@pytest.mark.slow
@pytest.mark.skipif(not SAME_UNICODE, reason=f"needs Unicode {build_table.UNICODE_VERSION} (Python 3.11)")
def test_shipped_table_equals_the_computed_one(tmp_path):
    build_table.main(["--output", str(tmp_path / "table.npz")])
    assert [entry.name for entry in tmp_path.iterdir()] == ["table.npz"]
    with np.load(tmp_path / "table.npz") as built, np.load(build_table.TABLE_PATH) as shipped:
        assert set(built) == set(shipped)
        for name in built:
            np.testing.assert_array_equal(built[name], shipped[name], err_msg=name)


def test_version_and_size():
    with np.load(build_table.TABLE_PATH) as table:
        assert str(table["unicode_version"]) == build_table.UNICODE_VERSION
    assert build_table.TABLE_PATH.stat().st_size < 100_000


def test_another_unicode_version_is_refused(monkeypatch):
    monkeypatch.setattr(build_table.unicodedata, "unidata_version", "15.1.0")
    with pytest.raises(ValueError, match=r"14\.0\.0.*Received: 15\.1\.0"):
        build_table.build_arrays()

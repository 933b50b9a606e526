"""Recorded outputs, and the comparison of other outputs with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_tf.export.verify.comparison import Case, compare, compare_outputs, read_recording, write_recording

INF = np.inf


def strings(*values: Any) -> np.ndarray:
    return np.array([[value.encode() for value in row] if isinstance(row, list) else row for row in values], object)


def test_golden_outputs_round_trip(tmp_path: Path) -> None:
    inputs = {"text": np.array([b"a", "é".encode(), b"\x00"], dtype=object), "ids": np.zeros((0, 4), np.int32)}
    cases = [
        Case("b", inputs, {"x": np.ones(3, np.float32)}, {"x": np.float64([0.1, INF, 0.1])}),
        Case("a", {"text": inputs["text"][:0]}, {"x": np.ones(1)}, {"x": np.asarray(0.0)}),
    ]
    write_recording(tmp_path / "r.npz", cases, 1e-6)
    read, relative_tolerance = read_recording(tmp_path / "r.npz")
    assert relative_tolerance == 1e-6
    assert [case.signature for case in read] == ["b", "a"]
    for (_, *sides), (_, *expected_sides) in zip(read, cases, strict=True):
        for side, expected in zip(sides, expected_sides, strict=True):
            assert {name: (value.tolist(), value.dtype) for name, value in side.items()} == {
                name: (value.tolist(), value.dtype) for name, value in expected.items()
            }


def test_golden_outputs_without_tolerances_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "r.npz", tolerance=1e-5)
    with pytest.raises(ValueError, match=r"r\.npz: must hold `relative_tolerance`.*Run `bert-tf export` again"):
        read_recording(tmp_path / "r.npz")


@pytest.mark.parametrize(
    ("found", "expected", "tolerance", "fault"),
    [
        (np.float32([1, 2]), np.float32([1, 2 + 1e-6]), 1e-5, ""),
        (np.float32([1, 2]), np.float32([1, 2.001]), 1e-5, "differs by 0.001, allowed is 1e-05"),
        # A tolerance for each value; values with infinite tolerance are not compared.
        (np.float32([[1, 2], [3, 9]]), np.float32([[1, 2.1], [3, 4]]), [[0.2, 0.2], [0.2, INF]], ""),
        (np.float32([[1, 2], [3, 9]]), np.float32([[1, 2.1], [3, 4]]), [[0.2], [0.3]], "differs by 5, allowed is 0.3"),
        (np.float32([np.nan]), np.float32([np.nan]), 0.0, ""),
        (np.float32([np.nan]), np.float32([1]), 1e-5, "differs"),
        (np.float32([INF]), np.float32([1]), 1e-5, "differs"),
        (np.float32([[1]]), np.float32([1]), INF, "shape (1, 1), expected (1,)"),
        (np.array([b"a", b"b"], object), np.array([b"a", b"c"], object), 0.0, "1 of 2 strings differ"),
        (np.array([b"a", b"b"], object), np.array([b"a", b"c"], object), [0.0, INF], ""),
        (np.int32([1, 2]), np.int32([1, 3]), 0.0, "differs by 1"),
        (np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32), 0.0, ""),
        (None, np.float32([1]), 0.0, "missing"),
        (np.float32([1]), None, 0.0, "was not recorded"),
    ],
)
def test_differences_beyond_the_tolerance_are_reported(found: Any, expected: Any, tolerance: Any, fault: str) -> None:
    _, message = compare(None if found is None else np.array(found), expected, np.array(tolerance))
    assert message.startswith(fault)
    assert bool(message) == bool(fault)


@pytest.mark.parametrize(
    ("found", "tolerance", "fault"),
    [
        # Row 1 is a tie and may have more entities. Row 0 must have the recorded entities only.
        ([["a", ""], ["b", "c"]], [[0.0], [INF]], ""),
        ([["a", "x"], ["b", "c"]], [[0.0], [INF]], "1 of 4 strings differ"),
        ([["a", ""], ["b", "c"]], [[0.0], [0.0]], "shape (2, 2), expected (2, 1)"),
        ([["a", ""], ["b", ""], ["c", ""]], [[0.0], [INF]], "shape (3, 2), expected (2, 1)"),
    ],
)
def test_tied_lists_may_be_longer(found: list[list[str]], tolerance: list[list[float]], fault: str) -> None:
    message = compare(strings(*found), strings(["a"], ["z"]), np.array(tolerance))[1]
    assert message.startswith(fault)
    assert bool(message) == bool(fault)


def test_missing_and_additional_outputs_are_named() -> None:
    case = Case("s", {}, {"a": np.float32([1]), "b": np.float32([1])}, {"a": np.array(0.1), "b": np.array(0.1)})
    compared = list(compare_outputs({"b": np.float32([1.05]), "c": np.float32([0])}, case))
    assert [(name, bool(fault)) for name, _, fault in compared] == [("a", True), ("b", False), ("c", True)]
    assert compared[1][1] == pytest.approx(0.05)

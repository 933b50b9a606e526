"""Charts of notebooks: whole SVG files, matrices and points."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

from bert_tf.reports.charts import Chart, Series, line_chart, matrix_chart, points_chart

SVG = "{http://www.w3.org/2000/svg}"


def shapes(chart: Chart, tag: str, kind: str) -> list[ElementTree.Element]:
    return [shape for shape in chart.iter(tag) if shape.get("class") == kind]


def test_a_notebook_displays_a_whole_file_with_title_background_and_colors() -> None:
    chart = line_chart("Loss & more", "step", [Series("train", [(0, 2.0), (5, 1.0)])], "{:.1f}")
    before = chart.__html__()
    root = ElementTree.fromstring(chart._repr_svg_())
    assert root.tag == f"{SVG}svg"
    assert "Loss & more" in [text.text for text in root.iter(f"{SVG}text")]
    assert any(shape.get("class") == "sheet" for shape in root.iter(f"{SVG}rect"))
    style = root.findtext(f"{SVG}style", "")
    assert "--card: #ffffff" in style and ".chart .curve.train" in style
    assert len(list(root.iter(f"{SVG}polyline"))) == 1
    # A page holds the same chart without them.
    assert chart.__html__() == before and "<style>" not in before and "xmlns" not in before
    assert repr(chart) == "Chart('Loss & more')"


def test_a_matrix_is_darker_for_higher_numbers() -> None:
    chart = matrix_chart("Cosine", ["a", "b"], ["c", "d", "e"], np.array([[0.0, 0.5, 1.0], [0.25, 0.0, 0.0]]))
    opacity = [float(cell.attrib["opacity"]) for cell in shapes(chart, "rect", "warm")]
    assert opacity[0] < opacity[3] < opacity[1] < opacity[2] == 1.0
    assert [cell.findtext("title") for cell in shapes(chart, "rect", "warm")][:2] == ["a, c: 0.00", "a, d: 0.50"]
    numbers = [text.text for text in chart.iter("text") if text.get("class", "").startswith("number")]
    assert numbers == ["0.00", "0.50", "1.00", "0.25", "0.00", "0.00"]


def test_a_wide_matrix_has_no_numbers_and_equal_values_are_drawn() -> None:
    chart = matrix_chart("Attention", ["x"], [str(n) for n in range(20)], np.full((1, 20), 0.05))
    assert len(shapes(chart, "rect", "warm")) == 20
    assert not [text for text in chart.iter("text") if "number" in text.get("class", "")]


def test_points_have_one_scale_and_a_color_for_each_group() -> None:
    places = {"sea": np.array([[0.0, 0.0], [2.0, 1.0]]), "land": np.array([[1.0, 0.5]])}
    chart = points_chart("Map", places, {"sea": ["a", "b"], "land": ["c"]})
    (left, right), (middle,) = (
        [dot for dot in shapes(chart, "circle", f"group{n}") if dot.findtext("title")] for n in (0, 1)
    )
    x, y = ([float(dot.attrib[name]) for dot in (left, middle, right)] for name in ("cx", "cy"))
    assert x[1] - x[0] == pytest.approx(x[2] - x[1], abs=0.2)
    assert (x[2] - x[0]) == pytest.approx(2 * (y[0] - y[2]), abs=0.2)
    assert middle.findtext("title") == "land: c"


def test_points_of_too_many_groups_are_refused() -> None:
    groups = {str(n): np.zeros((1, 2)) for n in range(9)}
    with pytest.raises(ValueError, match="Received: 9"):
        points_chart("Map", groups, {name: ["a"] for name in groups})

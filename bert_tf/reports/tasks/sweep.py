"""Report on a sweep: the best run, the spread of each setting, and a table of all runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree.ElementTree import Element

from bert_tf.config.files import staged_file
from bert_tf.reports.charts import WIDTH, px, svg_chart, svg_text
from bert_tf.reports.curves import axis_of
from bert_tf.reports.data.facts import plural
from bert_tf.reports.data.page import table_card
from bert_tf.reports.html import Content, element, extended
from bert_tf.reports.parts import chart_card, figure, figure_boxes, heading, name_of, warning, write_page
from bert_tf.reports.tasks.results import (
    NONE,
    RunRow,
    Setting,
    figure_names,
    markdown,
    measured,
    ordered,
    setting_names,
    settings_of,
    summary,
    written,
)
from bert_tf.reports.text import cut

RESULTS_JSON, RESULTS_MARKDOWN, RESULTS_PAGE = "results.json", "results.md", "results.html"
_MOST_FIGURES = 6
# Maximum settings in the chart, the best first.
_MOST_DRAWN = 40
_SORTING = """
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    const key = row => row.cells[column].dataset.key ?? row.cells[column].textContent;
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "descending" ? -1 : 1;
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down > 0 ? "descending" : "ascending");
      const compare = (a, b) => {
        const [x, y] = [key(a), key(b)], numbers = x !== "" && y !== "" && !isNaN(x) && !isNaN(y);
        if (x === "" || y === "") return (x === "") - (y === "");
        return down * (numbers ? y - x : String(x).localeCompare(String(y)));
      };
      body.append(...[...body.rows].sort(compare));
    });
  });
}
"""


def write_results(folder: Path, title: str, rows: Sequence[RunRow], metric: str) -> Path:
    """Writes `results.json`, `results.md` and `results.html`, each atomically.

    Args:
        folder: existing directory.
        title: title of the sweep.
        rows: finished and failed runs in any order; later calls may add runs.
        metric: name of the metric that ranks the runs; larger is better.

    Returns:
        The path of the page.
    """
    for name, content in ((RESULTS_JSON, summary), (RESULTS_MARKDOWN, markdown)):
        with staged_file(folder / name) as file:
            file.write(content(title, rows, metric).encode(errors="replace"))
    _write_page(folder / RESULTS_PAGE, title, rows, metric)
    return folder / RESULTS_PAGE


def _write_page(path: Path, title: str, rows: Sequence[RunRow], metric: str) -> None:
    settings = settings_of(rows, metric)
    best = next((row for row in rows if row.is_best), None)
    hours = sum(row.seconds for row in rows) / 3600
    done = plural(len(rows), "run")
    lead = f"{done} of {plural(len(settings), 'setting')}, {hours:.2g} hours in total, ranked by {metric}."
    main = extended(element("main"), heading("bert_tf runs", title, cut(lead)))
    extended(main, warning(_failure_summary(rows)))
    if best is not None:
        main.append(_best(best, metric))
    main.append(element("h2", "By settings"))
    if any(one.values for one in settings):
        note = (
            "Dot: run. Ring: best run. Cross: collapsed run. The vertical line is the mean of a setting, the band one "
            "sample standard deviation on either side."
        )
        some = f" The best {_MOST_DRAWN} settings." if len(settings) > _MOST_DRAWN else ""
        main.append(chart_card(cut(metric), note + some, _strips(settings[:_MOST_DRAWN]), "wide strip"))
    main.append(_by_settings(settings))
    main.append(element("h2", "All runs"))
    main.append(_runs(rows, metric))
    main.append(element("script", _SORTING))
    write_page(path, f"Runs: {title}", main)


def _failure_summary(rows: Sequence[RunRow]) -> str:
    collapsed, failed = sum(row.collapsed for row in rows), sum(row.metrics is None for row in rows)
    counts = [f"{count} {what}" for count, what in ((collapsed, "collapsed"), (failed, "failed")) if count]
    return f"{' and '.join(counts)} of {plural(len(rows), 'run')}: see their remarks below." if counts else ""


def _best(best: RunRow, metric: str) -> Element:
    value = best.value(metric)
    other_metrics = [(name, figure(number)) for name, number in (best.metrics or {}).items() if name != metric]
    settings = [(name, written(number)) for name, number in best.settings.items()]
    boxes = [(cut(metric, 40), measured(value), f"the best run, {cut(best.name, 60)}")]
    boxes += [(cut(name, 40), number, "") for name, number in (*settings, *other_metrics)[:_MOST_FIGURES]]
    return figure_boxes(boxes)


def _strips(settings: Sequence[Setting]) -> Element:
    """Draws the ranking metric of every run, one row per setting."""
    metric = settings[0].metric
    low, high, ticks = axis_of([value for one in settings for value in one.values])
    step, left, right, top = 40.0, 16.0, 40.0, 8.0
    wide, floor = WIDTH - left - right, top + 40.0 * len(settings)

    def at(value: float) -> float:
        return left + wide * (value - low) / (high - low)

    parts = []
    for tick in ticks:
        parts.append(element("line", class_="grid", x1=px(at(tick)), x2=px(at(tick)), y1=px(top), y2=px(floor)))
        parts.append(svg_text(f"{tick:.6g}", at(tick), floor + 18, "middle"))
    for number, one in enumerate(settings):
        y = top + step * number + 27
        parts.append(svg_text(cut(one.name, 64), left, y - 13, "start", "name beside"))
        if one.mean is not None:
            parts += _spread(one, one.mean, at, y)
        parts += [mark for row in one.rows for mark in _run(row, metric, at, y)]
    means = (f"{one.name}: {measured(one.mean)}" for one in settings)
    return svg_chart(f"{metric} by setting", cut("; ".join(means), 2000), floor + 24, parts)


def _spread(one: Setting, mean: float, at, y: float) -> Iterator[Element]:
    words = element("title", f"{cut(one.name)}: mean {written(mean)}, standard deviation {measured(one.deviation)}")
    if one.deviation:
        ends = {"x1": px(at(mean - one.deviation)), "x2": px(at(mean + one.deviation))}
        yield element("line", class_="spread", y1=px(y), y2=px(y), **ends)
    yield element("line", words, class_="mean", x1=px(at(mean)), x2=px(at(mean)), y1=px(y - 8), y2=px(y + 8))


def _run(row: RunRow, metric: str, at, y: float) -> Iterator[Element]:
    value = row.value(metric)
    if value is None:
        return
    x = at(value)
    words = element("title", f"{cut(row.name)}: {measured(value)}{f', {cut(row.remark)}' if row.remark else ''}")
    if row.collapsed:
        cross = f"M{px(x - 5)},{px(y - 5)}L{px(x + 5)},{px(y + 5)}M{px(x - 5)},{px(y + 5)}L{px(x + 5)},{px(y - 5)}"
        yield element("path", words, class_="cross", d=cross)
    else:
        yield element("circle", words, class_="run", cx=px(x), cy=px(y), r="5")
    if row.is_best:
        yield element("circle", class_="run best", cx=px(x), cy=px(y), r="9")


def _by_settings(settings: Sequence[Setting]) -> Element:
    columns = (("Settings", ""), ("Runs", "n"), ("Mean", "n"), ("Std. deviation", "n"), ("Best", "n"),
               ("Collapsed", "n"), ("Failed", "n"))  # fmt: skip
    rows = (
        (name_of(one.name), f"{len(one.rows)}", _mean(one), measured(one.deviation),
         measured(one.best), f"{one.collapsed}", f"{one.failed}")
        for one in settings
    )  # fmt: skip
    return _sortable(table_card(columns, rows))


def _mean(one: Setting) -> Content:
    if not one.collapsed or one.mean_uncollapsed is None:
        return measured(one.mean)
    under = element("span", f"{measured(one.mean_uncollapsed)} without collapsed", class_="under")
    return element("span", measured(one.mean), under, data_key=f"{one.mean}")


def _runs(rows: Sequence[RunRow], metric: str) -> Element:
    names, figures = setting_names(rows), figure_names(rows, metric)[:_MOST_FIGURES]
    columns = (("Run", ""), *((cut(name, 40), "n") for name in (*names, *figures)), ("Step", "n"), ("Seconds", "n"))
    cells: Iterator[tuple[Content, ...]] = (
        (_run_name(row), *(written(row.settings.get(name)) for name in names),
         *(measured((row.metrics or {}).get(name)) for name in figures), f"{row.step:,}", f"{row.seconds:,.0f}")
        for row in ordered(rows, metric)
    )  # fmt: skip
    return _sortable(table_card(columns, cells))


def _run_name(row: RunRow) -> Element:
    badges = []
    if row.is_best:
        badges.append(element("span", "best", class_="badge best"))
    if row.metrics is None:
        badges.append(element("span", "failed", class_="badge off"))
    elif row.collapsed:
        badges.append(element("span", "collapsed", class_="badge off"))
    parts = [part for badge in badges for part in (" ", badge)]
    remark = [element("span", cut(row.remark), class_="under")] if row.remark else []
    return element("div", name_of(row.name), *parts, *remark)


def _sortable(card: Element) -> Element:
    """Adds sort keys to the numeric cells of a table for the sorting script."""
    card.set("class", "card tablecard wide sortable")
    for cell in card.iter("td"):
        text = cell.text or ""
        inner = cell.find("span")
        key = inner.get("data-key", "") if inner is not None else text.replace(",", "")
        if cell.get("class") == "n":
            cell.set("data-key", "" if key == NONE else key)
    return card

"""Style sheet of all pages: light and dark, responsive."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from bert_tf.reports.html import element, to_html

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #f7f6f3; --card: #ffffff; --ink: #23262b; --soft: #666b73; --line: #e4e2dc; --faint: #efeee9;
  --first: #2f6f73; --second: #9a5b21; --bar: #4d8b8f; --wash: #e3eeee;
  --masked: #27494c; --masked-ink: #f3fbfb; --random: #a23b4a; --kept: #6a6b1f; --warn: #8a5a00; --warn-wash: #fbf1dc;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #17191c; --card: #1f2226; --ink: #e4e3df; --soft: #9a9fa7; --line: #32363b; --faint: #282c31;
    --first: #7fc1c4; --second: #dda36a; --bar: #5f9ea2; --wash: #233436;
    --masked: #b9dcde; --masked-ink: #14282a; --random: #f0919d; --kept: #cfd07a; --warn: #edc16a;
  --warn-wash: #33291a;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
  font-variant-numeric: tabular-nums; -webkit-text-size-adjust: 100%;
}
main { max-width: 1080px; margin: 0 auto; padding: 56px 28px 96px; }
h1 { font-size: clamp(1.7rem, 4.5vw, 2.5rem); line-height: 1.15; font-weight: 650; letter-spacing: -.02em;
  margin: 6px 0 10px; }
h2 { font-size: 1.3rem; font-weight: 650; letter-spacing: -.01em; margin: 64px 0 4px; }
h3 { font-size: 1rem; font-weight: 600; margin: 0 0 2px; }
p { margin: 0 0 14px; max-width: 72ch; }
.kicker, .note, .lead { color: var(--soft); }
.kicker { font-size: .85rem; letter-spacing: .04em; margin: 0; }
.note { font-size: .9rem; }
code, .mono { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: .87em; overflow-wrap: anywhere; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 20px 22px; }
.pair > .card { display: flex; flex-direction: column; }
.pair .chart { margin-top: auto; padding-top: 12px; }
.pair { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 18px; margin-top: 16px; }

.verdict { margin: 28px 0 0; border-radius: 12px; padding: 14px 20px; background: var(--wash); }
.verdict.warn { background: var(--warn-wash); border-left: 5px solid var(--warn); }
.verdict ul { margin: 6px 0 2px; padding-left: 1.2em; }
.verdict li + li { margin-top: 4px; }
.verdict b { font-weight: 650; }
.verdict.warn b { color: var(--warn); }

.figures { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); gap: 1px; margin: 22px 0 0; padding: 0;
  overflow: hidden;
  background: var(--line); border: 1px solid var(--line); border-radius: 12px; }
.figures div { background: var(--card); padding: 18px 22px; }
.figures dt { color: var(--soft); font-size: .88rem; }
.figures dd { margin: 0; }
.figures .big { font-size: clamp(1.3rem, 3.4vw, 1.75rem); font-weight: 600; letter-spacing: -.015em;
  line-height: 1.3; }
.figures .more { color: var(--soft); font-size: .85rem; }

table { width: 100%; border-collapse: collapse; font-size: .93rem; }
.tablecard { margin-top: 16px; padding: 8px 22px; }
th { text-align: left; color: var(--soft); font-weight: 500; font-size: .85rem; white-space: nowrap; }
th, td { padding: 10px 14px 10px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td { border-bottom: 0; }
.n { text-align: right; white-space: nowrap; }
.under { display: block; color: var(--soft); font-size: .85rem; }
.share { width: 26%; padding-right: 0; }
.meter { display: block; height: 8px; border-radius: 4px; background: var(--faint); margin-top: 8px;
  overflow: hidden; }
.meter i { display: block; height: 100%; border-radius: 4px; background: var(--bar); }

.chart { display: block; width: 100%; height: auto; margin-top: 12px; overflow: visible; }
.chart text { font-size: 12px; fill: var(--soft); font-family: inherit; }
.chart .value, .chart .name { fill: var(--ink); font-weight: 600; }
.chart .name { font-weight: 400; }
.chart .bar { fill: var(--bar); }
.chart .bar:hover { fill: var(--first); }
.chart .grid { stroke: var(--line); }
.chart .axis { stroke: var(--soft); }
.chart .cut { fill: var(--card); }
.chart .track, .chart .allowed { fill: var(--faint); }
.chart .allowed { fill: var(--wash); }
.chart .expected { stroke: var(--ink); stroke-width: 2; }
.chart .dot { fill: var(--first); }
.chart .dot.off { fill: var(--random); }
.chart .curve { fill: none; stroke-width: 1.5; stroke-linejoin: round; }
.chart .curve.train { stroke: var(--bar); }
.chart .curve.validation { stroke: var(--second); opacity: .5; }
.chart .point.validation { fill: var(--second); }
.chart .level { stroke: var(--random); stroke-dasharray: 6 4; }
.chart .level.published { stroke: var(--kept); stroke-dasharray: 1.5 3.5; }
.chart .beside { paint-order: stroke; stroke: var(--card); stroke-width: 4px; }

.legend { display: flex; flex-wrap: wrap; gap: 8px 26px; margin: 14px 0 0; padding: 0; list-style: none;
  font-size: .92rem; }
.example { margin-top: 16px; padding: 16px 22px 18px; break-inside: avoid; }
.example header { display: flex; flex-wrap: wrap; gap: 2px 12px; align-items: baseline; font-size: .88rem;
  color: var(--soft); }
.example header b { color: var(--ink); font-weight: 650; }
.label { border: 1px solid var(--line); border-radius: 99px; padding: 0 10px; color: var(--ink); }
.segment { position: relative; margin: 12px 0 0; padding-left: 34px; max-width: none; line-height: 2.25;
  overflow-wrap: anywhere; }
.segment::before { content: attr(data-name); position: absolute; left: 0; top: .62em; width: 20px; height: 20px;
  border-radius: 5px;
  font: 600 12px/20px system-ui, sans-serif; text-align: center; color: var(--card); background: var(--first); }
.segment::after { content: ""; position: absolute; left: 9px; top: calc(.62em + 26px); bottom: 6px;
  border-left: 2px solid var(--first); opacity: .35; }
.segment.b::before { background: var(--second); }
.segment.b::after { border-left: 2px dashed var(--second); opacity: .6; }
.special { color: var(--soft); font: 500 .78em ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.unknown { color: var(--warn); border-bottom: 2px solid var(--warn);
  font: 600 .8em ui-monospace, Menlo, Consolas, monospace; }
.piece::before { content: "\\00b7"; color: var(--soft); opacity: .7; padding: 0 1px; }
ruby { ruby-align: center; white-space: nowrap; }
rt { font-size: .74em; line-height: 1.25; font-weight: 600; color: var(--ink); white-space: nowrap; }
.now { display: inline-block; line-height: 1.35; margin: 0 1px; padding: 0 5px; border-radius: 4px; }
.masked .now { background: var(--masked); color: var(--masked-ink); font-size: .86em; line-height: 1.57; }
.random .now { border: 1.5px dashed var(--random); color: var(--random); text-decoration: line-through 1px;
  line-height: 1.2; padding: 0 4px; }
.kept .now { border-bottom: 3px double var(--kept); border-radius: 0; padding: 0 2px; line-height: 1.2; }
.random rt { color: var(--random); }
.kept rt { color: var(--kept); }
.right .now { background: var(--masked); color: var(--masked-ink); }
.wrong .now { border: 1.5px dashed var(--random); color: var(--random); text-decoration: line-through 1px;
  line-height: 1.2; padding: 0 4px; }
.right rt { font-weight: 400; color: var(--soft); }
td .right, td .wrong { font-weight: 600; }
td .wrong { color: var(--random); }
.example .tablecard { border: 0; padding: 0; }

details { margin-top: 16px; }
summary { cursor: pointer; color: var(--soft); font-size: .92rem; }
.settings { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 4px 22px; margin: 8px 0 0;
  font-size: .92rem; }
.settings dt { color: var(--soft); }
.settings dd { margin: 0; overflow-wrap: anywhere; }

@media (max-width: 720px) {
  main { padding: 32px 16px 64px; }
  h2 { margin-top: 48px; }
  .pair { grid-template-columns: minmax(0, 1fr); }
  .figures { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .figures div { padding: 14px 16px; }
  .card { padding: 16px; }
  .tablecard { padding: 4px 16px; }
  .chart text { font-size: 15px; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  table, tbody, tr, td { display: block; }
  tr { padding: 12px 0; border-bottom: 1px solid var(--line); }
  tr:last-child { border-bottom: 0; }
  td { border: 0; padding: 2px 0; }
  td.n { display: flex; justify-content: space-between; text-align: left; }
  td.n::before { content: attr(data-name); color: var(--soft); }
  .share { width: auto; }
  .settings { grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 4px 14px; }
}
@media print { body { background: none; } .card, .figures { border-color: #ccc; } }
"""


def styled_page(title: str, main: Element, more_style: str = "") -> str:
    """Renders a self-contained page.

    Args:
        title: title of the page.
        main: `main` element of the page.
        more_style: additional CSS.

    Returns:
        The HTML document.
    """
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", STYLE + more_style),
    )
    return to_html(element("html", head, element("body", main), lang="en"))

"""Additional style sheet of the task reports: matrices, marked spans, errors, strips."""

PAGE_STYLE = """
:root {
  --good: #2f6f73; --bad: #a23b4a; --half: #8a5a00;
  --type0: #2868a8; --type1: #9a5b21; --type2: #3f7d2c; --type3: #8c3f9a; --type4: #a23b4a; --type5: #1f7d7a;
  --type6: #6a6b1f; --type7: #5a5fb0;
}
@media (prefers-color-scheme: dark) {
  :root {
    --good: #7fc1c4; --bad: #f0919d; --half: #edc16a;
    --type0: #86b9ee; --type1: #dda36a; --type2: #97cf82; --type3: #d79ae2; --type4: #f0919d; --type5: #6fcdc8;
    --type6: #cfd07a; --type7: #b0b4f5;
  }
}
.figures.fitted { display: flex; flex-wrap: wrap; }
.figures.fitted div { flex: 1 1 170px; }
.wide { margin-top: 18px; }
.pair > .wide { margin-top: 0; }
.narrow .chart { max-width: 640px; }
.pair + .pair, .pair + .card { margin-top: 18px; }
.pair .scroll { margin: auto -6px; }
.scroll { overflow-x: auto; margin: 14px -6px 0; padding: 0 6px 4px; }
.name { overflow-wrap: anywhere; }

.matrix { width: auto; border-collapse: separate; border-spacing: 3px; font-size: .9rem; }
.matrix th, .matrix td { border: 0; padding: 0; vertical-align: middle; }
.matrix thead { position: static; width: auto; height: auto; overflow: visible; clip-path: none;
  display: table-header-group; }
.matrix tr { display: table-row; border: 0; padding: 0; }
.matrix tbody { display: table-row-group; }
.matrix thead th { padding: 0 4px 6px; text-align: center; vertical-align: bottom; max-width: 110px; }
.matrix .over { color: var(--ink); font-weight: 600; }
.matrix .name { display: inline-block; max-width: 150px; white-space: normal; }
.matrix thead .upright { writing-mode: vertical-rl; transform: rotate(180deg); max-height: 130px; }
.matrix tbody th { text-align: right; padding-right: 8px; color: var(--ink); font-weight: 400; }
.matrix .side { color: var(--soft); font-size: .82rem; }
.matrix td { display: table-cell; min-width: 46px; height: 46px; padding: 4px 7px; text-align: center;
  border-radius: 6px; background: color-mix(in srgb, var(--bad) calc(62% * var(--share)), var(--faint)); }
.matrix td.same { background: color-mix(in srgb, var(--good) calc(58% * var(--share)), var(--faint));
  box-shadow: inset 0 0 0 1.5px color-mix(in srgb, var(--good) 60%, transparent); }
.matrix.few { margin: 6px auto 0; border-spacing: 4px; }
.matrix.few td { min-width: 104px; height: 84px; font-size: 1.05rem; }
.matrix td b { display: block; font-weight: 600; line-height: 1.25; }
.matrix td span { display: block; font-size: .76rem; line-height: 1.2; opacity: .78; }
.matrix td.none { opacity: .55; }
.chart .cell { fill: var(--bad); }
.chart .cell.same { fill: var(--good); }
.chart .plane { fill: var(--faint); }
.heat .chart { max-width: 680px; margin-left: auto; margin-right: auto; }
.heat .chart text { font-size: 7px; }

.chart .ideal { stroke: var(--soft); stroke-dasharray: 5 4; }
.chart .step { fill: var(--bar); opacity: .38; }
.chart .gap { stroke: var(--bad); stroke-width: 2; }
.chart .dot.far { fill: var(--bad); }
.chart .dot.cloud { fill: var(--first); opacity: .45; }
.chart .fate-right { fill: var(--good); }
.chart .fate-partial, .chart .fate-bounds { fill: var(--half); opacity: .8; }
.chart .fate-type { fill: var(--type3); opacity: .75; }
.chart .fate-wrong, .chart .fate-missed { fill: var(--bad); opacity: .85; }
.chart .fate-invented { fill: var(--type7); opacity: .7; }
.key { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px;
  vertical-align: -1px; background: var(--c); }
.key.fate-right { background: var(--good); }
.key.fate-partial, .key.fate-bounds { background: var(--half); }
.key.fate-type { background: var(--type3); }
.key.fate-wrong, .key.fate-missed { background: var(--bad); }
.key.fate-invented { background: var(--type7); }

.answer { margin-top: 14px; padding: 14px 20px 16px; break-inside: avoid; }
.answer header { display: flex; flex-wrap: wrap; gap: 4px 12px; align-items: baseline; font-size: .86rem;
  color: var(--soft); }
.answer header b { color: var(--ink); font-weight: 650; }
.answer header .mono { margin-left: auto; }
.answer .read { margin: 10px 0 0; padding-bottom: 3px; max-width: none; overflow-wrap: anywhere; overflow: hidden; }
.answer .read:has(.entity) { line-height: 1.95; }
.answer .note { margin: 4px 0 0; }
.answer .read.small { font-size: .94rem; line-height: 1.75; }
.answer .question { font-weight: 600; font-size: 1.05rem; line-height: 1.4; margin: 8px 0 0; max-width: none;
  overflow-wrap: anywhere; overflow: hidden; }
.what { color: var(--soft); font-size: .8rem; margin-right: 8px; }
.pill { border-radius: 99px; padding: 1px 10px; font-size: .8rem; font-weight: 600; white-space: nowrap;
  border: 1.5px solid currentColor; }
.pill.right { color: var(--good); }
.pill.partial { color: var(--half); }
.pill.wrong { color: var(--bad); border-style: dashed; }
.said { display: grid; grid-template-columns: max-content minmax(0, 1fr) max-content; gap: 5px 12px;
  align-items: center; margin: 12px 0 0; font-size: .92rem; }
.said dt { color: var(--soft); font-size: .85rem; }
.said dd { margin: 0; }
.said .lane { position: relative; border-radius: 5px; background: var(--faint); overflow: hidden; padding: 2px 9px;
  min-height: 1.6em; }
.said .lane i { position: absolute; inset: 0 auto 0 0; background: color-mix(in srgb, var(--good) 30%, transparent);
  border-right: 2px solid var(--good); }
.said .lane.off i { background: color-mix(in srgb, var(--bad) 26%, transparent); border-right: 2px dashed var(--bad); }
.said .lane span, .said .lane bdi { position: relative; overflow-wrap: anywhere; }
.said .texts { grid-column: 2 / -1; overflow-wrap: anywhere; overflow: hidden; }
.scale { position: relative; height: 26px; margin: 14px 8px 0; }
.scale::before { content: ""; position: absolute; left: 0; right: 0; top: 12px; border-top: 2px solid var(--line); }
.scale i { position: absolute; top: 5px; width: 14px; height: 14px; margin-left: -7px; border-radius: 50%;
  border: 2.5px solid var(--good); background: var(--card); }
.scale i.off { background: var(--bad); border-color: var(--bad); border-radius: 3px;
  transform: rotate(45deg) scale(.8); }
.scale u { position: absolute; top: 11px; height: 4px; background: color-mix(in srgb, var(--bad) 45%, transparent); }

mark { color: inherit; background: none; border-radius: 3px; padding: 1px 0; -webkit-box-decoration-break: clone;
  box-decoration-break: clone; }
mark.gold { border-bottom: 3px solid var(--good); background: color-mix(in srgb, var(--good) 13%, transparent); }
mark.found { border-bottom: 3px dotted var(--bad); background: color-mix(in srgb, var(--bad) 13%, transparent); }
mark.gold.found { border-bottom: 3px double var(--good);
  background: color-mix(in srgb, var(--good) 30%, transparent); }
.gapmark { color: var(--soft); padding: 0 .35em; }

.entity { border-radius: 5px; padding: 1px 2px 2px; -webkit-box-decoration-break: clone; box-decoration-break: clone;
  --t: var(--type0); }
.entity.t1 { --t: var(--type1); } .entity.t2 { --t: var(--type2); } .entity.t3 { --t: var(--type3); }
.entity.t4 { --t: var(--type4); } .entity.t5 { --t: var(--type5); } .entity.t6 { --t: var(--type6); }
.entity.t7 { --t: var(--type7); }
.entity i { font-style: normal; padding: 1px 1px 2px; }
.entity.right { background: color-mix(in srgb, var(--t) 20%, transparent); }
.entity.missed { box-shadow: inset 0 0 0 1.5px color-mix(in srgb, var(--t) 75%, transparent);
  background: none; }
.entity.invented { background: repeating-linear-gradient(135deg,
  color-mix(in srgb, var(--t) 24%, transparent) 0 4px, transparent 4px 8px); }
.entity.type { background: color-mix(in srgb, var(--t) 14%, transparent); border-bottom: 3px dotted var(--bad);
  border-radius: 5px 5px 0 0; }
.entity.bounds .g { border-bottom: 3px solid var(--t); }
.entity.bounds .p { background: color-mix(in srgb, var(--t) 26%, transparent); border-radius: 3px; }
.entity .tag { font-size: .68rem; font-weight: 650; letter-spacing: .02em; color: var(--t); margin: 0 2px 0 4px;
  white-space: nowrap; }
.entity:not(.right) .tag { color: var(--card); background: var(--t); border-radius: 3px; padding: 1px 5px; }
.entity .tag .off { text-decoration: line-through; }

.strip .chart { max-width: 820px; }
.chart .run { fill: var(--first); opacity: .75; }
.chart .run.best { fill: none; stroke: var(--second); stroke-width: 2.5; opacity: 1; }
.chart .cross { stroke: var(--bad); stroke-width: 2; }
.chart .mean { stroke: var(--ink); stroke-width: 2.5; }
.chart .spread { stroke: var(--soft); stroke-width: 6; opacity: .25; }
.badge { border-radius: 99px; padding: 0 9px; font-size: .78rem; font-weight: 650; white-space: nowrap; }
.badge.best { background: var(--masked); color: var(--masked-ink); }
.badge.off { color: var(--bad); border: 1.5px dashed var(--bad); }
th button { all: unset; cursor: pointer; color: inherit; font: inherit; }
th button:focus-visible { outline: 2px solid var(--first); border-radius: 3px; }
th[aria-sort] { color: var(--ink); }
th[aria-sort="ascending"] button::after { content: " \\2191"; }
th[aria-sort="descending"] button::after { content: " \\2193"; }

@media (max-width: 720px) {
  .matrix { font-size: .8rem; border-spacing: 2px; }
  .matrix.few td { min-width: 76px; height: 62px; font-size: .95rem; }
  .matrix:not(.few) td { min-width: 36px; height: 40px; padding: 3px 2px; }
  .matrix .name { max-width: 84px; }
  .answer { padding: 12px 14px 14px; }
  .heat .chart text { font-size: 9px; }
  .compact { overflow-x: auto; }
  .compact thead { position: static; width: auto; height: auto; clip-path: none; }
  .compact table { display: table; font-size: .84rem; }
  .compact thead { display: table-header-group; }
  .compact tbody { display: table-row-group; }
  .compact tr { display: table-row; }
  .compact td, .compact th { display: table-cell; padding: 7px 9px 7px 0; border-bottom: 1px solid var(--line); }
  .compact td.n { display: table-cell; text-align: right; }
  .compact .name { display: inline-block; min-width: 6.5em; }
  .compact td.n::before { content: none; }
  .sortable td.n > span { text-align: right; }
  .said { grid-template-columns: max-content minmax(0, 1fr) max-content; gap: 5px 8px; }
}
"""

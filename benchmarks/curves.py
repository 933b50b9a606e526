"""`python -m benchmarks.curves NAME=RUN[,RUN...] ...`: held-out results of pre-training runs, side by side.

    python -m benchmarks.curves adamw=runs/adamw_1,runs/adamw_2 muon=runs/muon_1,runs/muon_2 --output runs/benchmarks

The runs of one name differ only in their seeds: the table and the curve have their means. Prints a Markdown table, and
writes `curves.svg`, the perplexity of masked words over the steps.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import measure
from bert_tf.config.files import write_file
from bert_tf.reports.charts import WIDTH, Chart, Scale
from bert_tf.training.logging.run_log import read_history
from bert_tf.training.output import HISTORY_NAME

_METRICS = ("mlm_perplexity", "mlm_accuracy", "nsp_accuracy")
_TICKS = (10, 20, 50, 100, 200, 500, 1000, 2000)
_TOP, _BOTTOM, _ROW = 14.0, 260.0, 20.0


@dataclass(frozen=True)
class Curve:
    """Results of the runs of one name.

    Args:
        name: name in table and chart.
        runs: number of runs.
        means: means over the runs of each metric, by step.
        last: the metrics of each run after the last step.
        milliseconds: median time of a step in milliseconds.
    """

    name: str
    runs: int
    means: Mapping[int, Mapping[str, float]]
    last: Sequence[Mapping[str, float]]
    milliseconds: float


def read_curve(name: str, outputs: Sequence[Path]) -> Curve:
    """Reads the runs of one name. Raises ValueError if one has no evaluation at the steps of the others."""
    histories = [read_history(output / HISTORY_NAME) for output in outputs]
    evaluations = [{line["step"]: line for line in lines if line["split"] == "validation"} for lines in histories]
    steps = [sorted(found) for found in evaluations]
    if not steps[0] or any(found != steps[0] for found in steps):
        raise ValueError(f"{name}: the runs must have evaluations at the same steps. Received: {steps}")
    means = {
        step: {metric: statistics.fmean(found[step][metric] for found in evaluations) for metric in _METRICS}
        for step in steps[0]
    }
    times = [line["seconds_per_step"] for lines in histories for line in lines if line["split"] == "train"]
    last = [found[steps[0][-1]] for found in evaluations]
    return Curve(name, len(outputs), means, last, 1e3 * statistics.median(times))


def table(curves: Sequence[Curve]) -> str:
    """Returns the Markdown table: perplexity after parts of the steps, and all metrics at the end."""
    steps = sorted(set.intersection(*(set(curve.means) for curve in curves)))
    shown = [step for step in steps if step in {steps[0], steps[-1]} or step * 6 % steps[-1] == 0]
    header = ["run", "seeds", *(f"perplexity at {step:,}" for step in shown), "of each seed", "masked words",
              "next sentences", "ms a step"]  # fmt: skip
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    for curve in curves:
        end = curve.means[max(curve.means)]
        cells = [curve.name, str(curve.runs), *(f"{curve.means[step]['mlm_perplexity']:.0f}" for step in shown)]
        cells += [", ".join(f"{run['mlm_perplexity']:.1f}" for run in curve.last), f"{end['mlm_accuracy']:.1%}"]
        cells += [f"{end['nsp_accuracy']:.1%}", f"{curve.milliseconds:.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def chart(points: Mapping[str, Sequence[tuple[float, float]]], unit: str) -> Chart:
    """Draws perplexities by name over a number of units, on a logarithmic scale."""
    values = [value for one in points.values() for _, value in one]
    ends = "; ".join(f"{name} {one[-1][1]:.0f}" for name, one in points.items())
    drawn = Chart("Perplexity of held-out masked words", f"At the end: {ends}.", _BOTTOM + 30 + _ROW * len(points))
    right = max(step for one in points.values() for step, _ in one)
    x = Scale(0, right, 62, WIDTH - 10)
    y = Scale(math.log(min(values) * 0.9), math.log(max(values) * 1.1), _BOTTOM, _TOP)
    ticks = [math.log(tick) for tick in _TICKS if min(values) * 0.9 <= tick <= max(values) * 1.1]
    drawn.rows(y, ticks, lambda value: f"{math.exp(value):,.0f}", x)
    for part, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        drawn.label(
            f"{right * part:,.0f} {unit}s" if part == 1.0 else f"{right * part:,.0f}",
            x(right * part),
            _BOTTOM + 20,
            anchor,
        )
    for number, (name, one) in enumerate(points.items()):
        places = " ".join(f"{x(step):.1f},{y(math.log(value)):.1f}" for step, value in one)
        drawn.mark("polyline", f"curve series{number}", points=places)
        for step, value in one:
            drawn.dot(f"group{number}", x(step), y(math.log(value)), 2.5, f"{name}, {unit} {step:,.0f}: {value:.0f}")
        at = _BOTTOM + 38 + _ROW * number
        drawn.line(f"curve series{number}", (x.start, x.start + 20), (at - 4, at - 4))
        drawn.label(f"{name}: {one[-1][1]:.0f}", x.start + 28, at, "start", "name")
    return drawn


def main() -> None:
    """Reads the runs, prints the table and writes the chart."""
    parser = measure.parser(__doc__)
    parser.add_argument("runs", nargs="+", metavar="NAME=RUN[,RUN...]", help="name, and outputs of `bert-tf pretrain`")
    args = parser.parse_args()
    pairs = [pair.partition("=") for pair in args.runs]
    if wrong := [name for name, separator, paths in pairs if not separator or not paths]:
        parser.error(f"expected NAME=RUN[,RUN...]. Received: {', '.join(wrong)}")
    curves = [read_curve(name, [Path(path) for path in paths.split(",")]) for name, _, paths in pairs]
    print(table(curves))
    args.output.mkdir(parents=True, exist_ok=True)
    points = {curve.name: [(s, m["mlm_perplexity"]) for s, m in curve.means.items()] for curve in curves}
    write_file(args.output / "curves.svg", chart(points, "step")._repr_svg_().encode())
    print(f"\nChart: {args.output / 'curves.svg'}")


if __name__ == "__main__":
    main()

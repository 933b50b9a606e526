"""Takes the picture of the pages in README.md: data, training and predictions of a demo run, side by side.

    bert-tf demo --output runs/demo
    python docs/picture.py runs/demo

Needs Chromium or Chrome. The run in the README was shorter: 1,000 steps of pre-training, and two seeds and three epochs
of fine-tuning.
"""

from __future__ import annotations

import argparse
import html
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
# In pixels: size of the picture, gap between pages, and width at which a page is laid out.
WIDTH, HEIGHT, GAP, LAYOUT = 1600, 1000, 20, 860
FRAME = """<div style="width:{width}px;height:{height}px;overflow:hidden;border:1px solid #c9c9c4;border-radius:10px">
<iframe src="{url}" scrolling="no" style="border:0;width:{layout}px;height:{tall}px;transform:scale({scale});
transform-origin:0 0"></iframe></div>"""


def montage(pages: list[Path]) -> str:
    """Returns an HTML page that shows the beginnings of pages side by side."""
    width = (WIDTH - GAP * (len(pages) - 1)) / len(pages) - 2
    scale = width / LAYOUT
    frames = (
        FRAME.format(width=width, height=HEIGHT - 2, url=html.escape(page.resolve().as_uri()), layout=LAYOUT,
                     tall=HEIGHT / scale, scale=scale)
        for page in pages
    )  # fmt: skip
    style = f"margin:0;display:flex;gap:{GAP}px;color-scheme:light"
    return f'<!DOCTYPE html><meta charset="utf-8"><body style="{style}">{"".join(frames)}</body>'


def main() -> None:
    """Writes the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("demo", type=Path, help="output directory of `bert-tf demo`")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("pages.png"))
    args = parser.parse_args()
    results = args.demo / "classifier/results.json"
    if not results.exists():
        parser.error(f"{results} must exist. Run `bert-tf demo --output {args.demo}` first.")
    best = json.loads(results.read_text(encoding="utf-8"))["best"]
    names = ("data/report.html", "pretraining/report.html", f"classifier/runs/{best}/dev/answers.html")
    pages = [args.demo / name for name in names]
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        parser.error(f"one of {', '.join(BROWSERS)} must be installed.")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "montage.html"
        source.write_text(montage(pages), encoding="utf-8")
        flags = ("--headless", "--no-sandbox", "--hide-scrollbars", "--default-background-color=00000000")
        size, output = f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={args.output.resolve()}"
        subprocess.run([browser, *flags, size, output, source.as_uri()], check=True, capture_output=True, timeout=120)


if __name__ == "__main__":
    main()

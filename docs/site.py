"""Hooks of MkDocs: pages outside of docs/, notebooks, links between all pages, and the API reference.

MkDocs calls the functions whose names begin with `on_`; mkdocs.yml names this file.
"""

from __future__ import annotations

import html
import importlib.util
import json
import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

REPOSITORY = Path(__file__).resolve().parent.parent
ASSETS = REPOSITORY / "bert_tf" / "reports" / "assets"
STYLES = "assets/notebooks.css"  # named in mkdocs.yml
# Files of the repository by page; those in docs/ have the names of their pages.
PAGES = {
    "index.md": "README.md",
    "serving.md": "saved_models/README.md",
    "deployment.md": "deployment/README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    **{f"notebooks/{path.stem}.md": f"notebooks/{path.name}" for path in (REPOSITORY / "notebooks").glob("*.ipynb")},
}
# Files in place of folders, which have no page.
FOLDERS = {"docs": "README.md", "notebooks": "notebooks/own_corpus_to_served_model.ipynb"}
# Packages of the public names by page of the reference.
REFERENCE = {
    "models": ("bert_tf.models",),
    "preprocessing": ("bert_tf.models.preprocessors",),
    "text": ("bert_tf.text",),
    "data": ("bert_tf.data",),
    "layers": ("bert_tf.layers",),
    "training": ("bert_tf.training", "bert_tf.optim"),
    "tasks": ("bert_tf.tasks",),
    "config": ("bert_tf.config",),
    "serving": ("bert_tf.conversion", "bert_tf.export", "bert_tf.serving"),
}
# Classes and functions that users need beside the public names.
FURTHER = {
    "models": ("bert_tf.models.task_model.TextTaskModel",),
    "serving": ("bert_tf.client.connect", "bert_tf.client.predict", "bert_tf.client.ModelClient"),
}
_OUTPUT_STYLES = """
.output { margin: 0 0 1.4em; }
.output .chart { max-width: 640px; margin: 0; }
.output pre { border-left: 3px solid var(--bar); margin: 0; }
.output pre > code { background: none; padding: .2em 1.2em; }
"""
# Code and outputs, whose text holds no links.
_CODE = re.compile(r"(^```.*?^```$|^<div class=\"output\">.*?</div>$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[([^]]*)]\(([^)\s]+)\)|(!\[[^]]*]\()([^)\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages outside of docs/ and the pages of the reference."""
    for page, source in PAGES.items():
        text = (REPOSITORY / source).read_text(encoding="utf-8")
        if source.endswith(".ipynb"):
            files.append(File.generated(config, source, content=text))
            text = notebook_page(json.loads(text), posixpath.basename(source))
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, STYLES, content=chart_styles() + _OUTPUT_STYLES))
    for page, content in reference_pages().items():
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Replaces links to files of the repository by links to pages; links to other files become their names."""
    uri = page.file.src_uri
    folder = posixpath.dirname(PAGES.get(uri, posixpath.join("docs", uri)))

    def replaced(match: re.Match[str]) -> str:
        text, target, image, image_target = match.groups()
        if image:
            return f"{image}{page_link(image_target, folder, uri) or image_target})"
        link = page_link(target, folder, uri)
        if link is not None:
            return f"[{text}]({link})"
        name = posixpath.normpath(posixpath.join(folder, target))
        return text if name in text else f"{text} (`{name}`)"

    parts = _CODE.split(markdown)
    parts[::2] = (_LINK.sub(replaced, part) for part in parts[::2])
    return "".join(parts)


def notebook_page(notebook: Mapping[str, Any], name: str) -> str:
    """Returns a notebook as Markdown, with its outputs; `name` is the file to download, in the folder of the page."""
    blocks = []
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            blocks.append(text)
            continue
        language = "bash" if text.startswith("%%bash") else "python"
        blocks.append(f"```{language}\n{text}\n```")
        blocks += [f'<div class="output">{shown}</div>' for shown in map(_shown, cell["outputs"])]
    title, *others = blocks
    link = f'<a href="../{name}" download>Download this notebook</a>'
    return "\n\n".join([title, link, *others]) + "\n"


def _shown(output: Mapping[str, Any]) -> str:
    """Returns an output as HTML."""
    data = output.get("data", {})
    if "image/svg+xml" in data:
        # The site has the styles of charts, in light and dark.
        return re.sub(r"<style>.*?</style>", "", "".join(data["image/svg+xml"]), flags=re.DOTALL)
    text = "".join(output.get("text") or data["text/plain"])
    return f"<pre><code>{html.escape(text.rstrip())}</code></pre>"


def chart_styles() -> str:
    """Returns the styles of charts with the palette of each color scheme of the site."""
    palette = (ASSETS / "palette.css").read_text(encoding="utf-8").replace("  color-scheme: light dark;\n", "")
    light, _, dark = palette.partition("@media (prefers-color-scheme: dark) {\n")
    schemes = (("default", light), ("slate", dark.rstrip().removesuffix("}")))
    colors = [text.replace(":root", f'[data-md-color-scheme="{scheme}"]') for scheme, text in schemes]
    return "\n".join([*colors, (ASSETS / "chart.css").read_text(encoding="utf-8")])


def page_link(target: str, folder: str, uri: str) -> str | None:
    """Returns a link of a file in `folder` as a link of the page `uri`; None if its target is not on the site."""
    path, _, anchor = target.partition("#")
    if "://" in target or not path:
        return target
    source = posixpath.normpath(posixpath.join(folder, path))
    source = FOLDERS.get(source, source)
    pages = {file: page for page, file in PAGES.items()}
    page = pages.get(source) or (source.removeprefix("docs/") if source.startswith("docs/") else None)
    if page is None or source.endswith(".py"):
        return None
    relative = posixpath.relpath(page, posixpath.dirname(uri) or ".")
    return f"{relative}#{anchor}" if anchor else relative


def reference_pages() -> dict[str, str]:
    """Returns the pages of the reference: the public names of `bert_tf`, by package."""
    homes = _public_names()
    pages = {}
    pages_of = {package: page for page, packages in REFERENCE.items() for package in packages}
    for page in REFERENCE:
        names = []
        for name, home in sorted(homes.items()):
            # A package may be in another one.
            holders = [package for package in pages_of if f"{home}.".startswith(f"{package}.")]
            if holders and pages_of[max(holders, key=len)] == page:
                names.append(f"{home}.{name}")
        names += FURTHER.get(page, ())
        title = "Conversion, export, serving" if page == "serving" else page.capitalize()
        entries = "\n".join(f"::: {name}\n" for name in names)
        pages[f"reference/{page}.md"] = f"# {title}\n\nThe names are imported as `bert_tf.NAME`.\n\n{entries}"
    return pages


def _public_names() -> dict[str, str]:
    """Returns the module of each public name. `bert_tf` imports nothing before a name is used."""
    spec = importlib.util.spec_from_file_location("bert_tf", REPOSITORY / "bert_tf" / "__init__.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dict(module._HOMES)

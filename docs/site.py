"""Hooks of MkDocs: pages outside of docs/, links between all pages, and the API reference.

MkDocs calls the functions whose names begin with `on_`; mkdocs.yml names this file.
"""

from __future__ import annotations

import importlib.util
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

REPOSITORY = Path(__file__).resolve().parent.parent
# Files of the repository by page; those in docs/ have the names of their pages.
PAGES = {
    "index.md": "README.md",
    "serving.md": "saved_models/README.md",
    "deployment.md": "deployment/README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
}
# Packages of the public names by page of the reference.
REFERENCE = {
    "models": ("bert_tf.models",),
    "preprocessing": ("bert_tf.preprocessing",),
    "text": ("bert_tf.text",),
    "data": ("bert_tf.data",),
    "layers": ("bert_tf.layers",),
    "training": ("bert_tf.training",),
    "tasks": ("bert_tf.tasks",),
    "config": ("bert_tf.config",),
    "serving": ("bert_tf.conversion", "bert_tf.export", "bert_tf.serving"),
}
# Classes and functions that users need beside the public names.
FURTHER = {
    "models": ("bert_tf.models.task_model.TextTaskModel",),
    "serving": ("bert_tf.client.connect", "bert_tf.client.predict", "bert_tf.client.ModelClient"),
}
_LINK = re.compile(r"(?<!!)\[([^]]*)]\(([^)\s]+)\)|(!\[[^]]*]\()([^)\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages outside of docs/ and the pages of the reference."""
    for page, source in PAGES.items():
        text = (REPOSITORY / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
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

    return _LINK.sub(replaced, markdown)


def page_link(target: str, folder: str, uri: str) -> str | None:
    """Returns a link of a file in `folder` as a link of the page `uri`; None if its target is not on the site."""
    path, _, anchor = target.partition("#")
    if "://" in target or not path:
        return target
    source = posixpath.normpath(posixpath.join(folder, path))
    if source == "docs":
        return posixpath.relpath("index.md", posixpath.dirname(uri) or ".")
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
    for page, packages in REFERENCE.items():
        names = [
            f"{home}.{name}"
            for name, home in sorted(homes.items())
            if any(f"{home}.".startswith(f"{package}.") for package in packages)
        ]
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

"""Extension of Griffe: shows the section `Example:` of docstrings as code."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Renames the section to `Examples:`, the name that Griffe knows."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Renames the section of one object."""
        if obj.docstring:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)

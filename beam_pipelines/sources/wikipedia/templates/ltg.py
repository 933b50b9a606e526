"""Templates of the Latgalian Wikipedia."""

from __future__ import annotations

import re

from beam_pipelines.sources.wikipedia.templates.renderers import Patterns, Templates, show_first

TEMPLATES: Templates = {}

# {{vol-lv|word}}: a word after the name of its language.
PATTERNS: Patterns = ((re.compile(r"vol-[a-z-]+"), show_first),)

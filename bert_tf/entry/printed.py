"""Text of other programs and people in messages on a terminal."""

from __future__ import annotations

import re

# Control characters except tab and line break, and the marks that change the direction of text.
_UNPRINTED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(text: object) -> str:
    """Returns a text in which control characters are escaped as in JSON, so that they do not reach a terminal.

    File names, labels and titles may contain sequences that clear the screen, or make a line look like another one.
    """
    return _UNPRINTED.sub(lambda found: f"\\u{ord(found[0]):04x}", str(text))

"""Types of flags on the command line."""

from __future__ import annotations

import argparse


def boolean(text: str) -> bool:
    """Converts `true` or `false`, in any case, to a bool. Raises ArgumentTypeError for other values."""
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"must be true or false. Received: {text!r}")
    return text.lower() == "true"

"""Build shim for `--setup_file ./setup.py` (Beam on Dataflow); all metadata is in pyproject.toml."""

from setuptools import setup

setup()

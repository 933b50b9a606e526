"""Build shim for `--setup_file ./setup.py` (Beam on Dataflow); all metadata stands in pyproject.toml."""

from setuptools import setup

setup()

"""Versions of the software that a run depends on, on the driver and on its workers."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import platform
import unicodedata

import apache_beam as beam

from beam_pipelines.errors import PipelineError
from bert_tf.data.schema import DATA_ALGORITHM_VERSION

# Packages whose version may change bytes of the result.
_PACKAGES = ("datasketch", "mwparserfromhell", "numpy", "py3langid", "sentencex", "tensorflow-text")


def result_versions() -> dict[str, str]:
    """Returns the versions that may change bytes of the result."""
    packages = {name: importlib.metadata.version(name) for name in _PACKAGES}
    return {**packages, "python-unicode": unicodedata.unidata_version}


def pipeline_versions() -> dict[str, str]:
    """Returns the versions that a worker must share with its driver.

    Besides those of `result_versions` these are Python's and Beam's, which pickle the pipeline, and the version of
    bert_tf's own algorithms.
    """
    major, minor, _ = platform.python_version_tuple()
    return {
        "python": f"{major}.{minor}",
        "apache-beam": importlib.metadata.version("apache-beam"),
        "bert_tf's algorithms": str(DATA_ALGORITHM_VERSION),
        **result_versions(),
    }


@dataclasses.dataclass(eq=False, repr=False)
class SameVersionsDoFn(beam.DoFn):
    """Base class of the functions that determine the result; fails on workers with other versions than the driver's."""

    versions: dict[str, str] = dataclasses.field(default_factory=pipeline_versions, kw_only=True)

    def setup(self) -> None:
        """Raises PipelineError if this worker has other versions than the driver; called once on each worker."""
        here = pipeline_versions()
        differing = [
            f"{name} {here.get(name)} instead of {version}"
            for name, version in self.versions.items()
            if here.get(name) != version
        ]
        if differing:
            raise PipelineError(
                f"a worker has other versions than the program that started the run: {', '.join(differing)}. Install "
                "the versions of constraints.txt on the workers (deployment/README.md), or use an image that has them."
            )

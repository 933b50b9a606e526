"""Records the artifacts of a dry run; test_beam_dataflow.py runs it in the workers' virtual environment.

Usage: python dataflow_dry_run.py VOCABULARY SDIST FLAG...; prints the summary and the record as one line of JSON.
"""

from __future__ import annotations

import json
import shutil
import sys
from typing import Any

from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.dataflow.dataflow_runner import DataflowRunner
from memory_filesystem import OBJECTS
from samples import documents

from beam_pipelines import create_pretraining_data


def main() -> None:
    vocabulary, sdist, *flags = sys.argv[1:]
    OBJECTS["mem://bucket/corpus.txt"] = "\n".join(documents(20)).encode()
    sent: dict[str, Any] = {}
    run_pipeline = DataflowRunner.run_pipeline

    def run_and_keep(self: DataflowRunner, *args: Any, **kwargs: Any) -> Any:
        result = run_pipeline(self, *args, **kwargs)
        sent.update(_sent(self.proto_pipeline, sdist))
        return result

    DataflowRunner.run_pipeline = run_and_keep
    fixed = [f"--vocabulary={vocabulary}", "--input=mem://bucket/corpus.txt", "--output=gs://bucket/data"]
    summary = create_pretraining_data.run([*fixed, *flags])
    print(json.dumps({"summary": summary, "objects": sorted(OBJECTS), **sent}))


def _sent(pipeline: beam_runner_api_pb2.Pipeline, sdist: str) -> dict[str, Any]:
    """Returns transforms, container images and artifacts, and copies the sdist, which Beam deletes."""
    images, artifacts = set(), []
    for environment in pipeline.components.environments.values():
        images.add(beam_runner_api_pb2.DockerPayload.FromString(environment.payload).container_image)
        for dependency in environment.dependencies:
            path = beam_runner_api_pb2.ArtifactFilePayload.FromString(dependency.type_payload).path
            role = beam_runner_api_pb2.ArtifactStagingToRolePayload.FromString(dependency.role_payload)
            artifacts.append(role.staged_name)
            if path.endswith(".tar.gz"):
                shutil.copy(path, sdist)
    names = sorted(transform.unique_name for transform in pipeline.components.transforms.values())
    return {"transforms": names, "images": sorted(images), "artifacts": sorted(artifacts)}


if __name__ == "__main__":
    main()

"""Servers of object stores in this process: moto for S3 and an emulator for Google Cloud Storage."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

import fsspec
import pytest
from gcp_storage_emulator.exceptions import NotFound
from gcp_storage_emulator.handlers import objects
from gcp_storage_emulator.server import create_server
from moto.server import ThreadedMotoServer

from bert_tf.storage import mirrors


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """The URL of an empty bucket of S3."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        fsspec.filesystem("s3").mkdir("bucket")
        yield "s3://bucket"
    server.stop()


def _if_generation_matches(upload: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the emulator's upload with the condition `ifGenerationMatch`, which the emulator ignores."""

    def conditional(request: Any, response: Any, storage: Any) -> Any:
        wanted = request.query.get("ifGenerationMatch")
        if wanted:
            content = request.data
            name = request.query["name"][0] if "name" in request.query else content["meta"]["name"]
            try:
                generation = storage.get_file_obj(request.params["bucket_name"], name)["generation"]
            except NotFound:
                generation = "0"
            if wanted != [generation]:
                response.status = HTTPStatus.PRECONDITION_FAILED
                return None
        return upload(request, response, storage)

    return conditional


@pytest.fixture(scope="session")
def gcs() -> Iterator[str]:
    """The URL of an empty bucket of Google Cloud Storage."""
    server = create_server("127.0.0.1", 0, in_memory=True, default_bucket="bucket")
    server.start()
    port = server._api._httpd.server_address[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{port}")
        for name in ("_media_upload", "_multipart_upload"):
            patch.setattr(objects, name, _if_generation_matches(getattr(objects, name)))
        yield "gs://bucket"
    server.stop()


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """Returns a function that gives the following commands the cache of another machine."""

    def use(name: str) -> None:
        monkeypatch.setenv("BERT_TF_CACHE", str(tmp_path / "caches" / name))
        mirrors._mirrored.cache_clear()

    use("first")
    assert os.environ["BERT_TF_CACHE"]
    return use

"""The server as a process: start, restart of workers, and shutdown."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tensorflow_serving.config.file_system_storage_path_source_pb2 import FileSystemStoragePathSourceConfig

from bert_tf.client import PredictError, connect
from bert_tf.serving.models.versions import ServedModel
from bert_tf.serving.server import ServerOptions, _stopped_by_signals, serve
from tests.support.serving.server_process import running

pytestmark = pytest.mark.slow


def until(holds: Callable[[], bool], seconds: float = 120) -> None:
    """Waits until a condition that depends on another process is true."""
    waiter = threading.Event()
    for _ in range(int(seconds / 0.1)):
        if holds():
            return
        waiter.wait(0.1)
    raise AssertionError("it did not come")


class Traffic:
    """A thread that sends requests repeatedly, and records the errors."""

    def __init__(self, url: str) -> None:
        self._client = connect(url, retries=0)
        self.expected = self._client.predict(["the cat"])
        self.answered, self.failures = 0, list[Exception]()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def _ask(self) -> None:
        while not self._stop.is_set():
            try:
                assert self._client.predict(["the cat"]) == self.expected
                self.answered += 1
            except Exception as error:
                self.failures.append(error)

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def test_server_answers_rest_and_grpc_and_stops_on_a_signal(exported: Callable[[str], Path]) -> None:
    with running("--model", str(exported("pretrainer").parent), str(exported("classifier").parent)) as server:
        rest = connect(f"{server.url}/v1/models/pretrainer")
        grpc = connect(f"grpc://{server.grpc}/pretrainer/versions/1")
        row = rest.predict(["the [MASK] sat on a [MASK]"])[0]
        assert [len(candidates) for candidates in row["tokens"]] == [5, 5]
        assert grpc.predict(["the [MASK] sat on a [MASK]"])[0]["tokens"] == row["tokens"]
        assert rest.metadata() == grpc.metadata()
        with pytest.raises(PredictError, match="400: input text: expected a string. Received: 1"):
            rest.predict([1])
        port = int(server.url.rpartition(":")[2])
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}"):
            serve(exported("classifier").parent, ServerOptions(port=port, grpc_port=0))
        grpc_port = int(server.grpc.rpartition(":")[2])
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{grpc_port}"):
            serve(exported("classifier").parent, ServerOptions(port=0, grpc_port=grpc_port))
        status, out = server.stop()
    assert status == 0
    assert json.loads(out)["output"].endswith("classifier")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_sighup_reads_the_tokens_again(workers: str, exported: Callable[[str], Path], tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("first")
    arguments = ["--model", str(exported("classifier").parent), "--token_file", str(tokens), "--workers", workers]
    with running(*arguments) as server:
        url = f"{server.url}/v1/models/classifier"
        assert connect(url, token="first").status()
        before = _worker_pids(server)
        tokens.write_text("second")
        server.process.send_signal(signal.SIGHUP)

        def accepts(token: str) -> bool:
            try:
                return bool(connect(url, token=token, retries=0).status())
            except PredictError:
                return False

        until(lambda: accepts("second") and not accepts("first"))
        assert _worker_pids(server) == before
        status, _ = server.stop()
    assert status == 0


def test_versions_are_swapped_while_requests_are_answered(exported: Callable[[str], Path], tmp_path: Path) -> None:
    base, source = tmp_path / "classifier", exported("classifier")
    shutil.copytree(source, base / "1")
    arguments = ["--model", str(base), "--file_system_poll_wait_seconds", "0.1"]
    with running(*arguments) as server:
        url = f"{server.url}/v1/models/classifier"

        def states() -> dict[int, str]:
            return {state["version"]: state["state"] for state in connect(url).status()}

        with Traffic(url) as traffic:
            shutil.copytree(source, base / ".staging-2")
            (base / ".staging-2").rename(base / "2")
            until(lambda: states() == {2: "AVAILABLE"})
            (base / ".staging-3").mkdir()
            (base / ".staging-3/saved_model.pb").write_bytes(b"corrupt")
            (base / ".staging-3").rename(base / "3")
            until(lambda: states() == {3: "END", 2: "AVAILABLE"})
            shutil.rmtree(base / "3")
            # Copies the version file by file, the variables last, with their shard in two parts.
            (base / "0004/variables").mkdir(parents=True)
            shutil.copy(source / "saved_model.pb", base / "0004")
            until(lambda: states() == {4: "START", 2: "AVAILABLE"})
            shutil.copy(source / "variables/variables.index", base / "0004/variables")
            [shard] = source.glob("variables/variables.data-*")
            (base / "0004/variables" / shard.name).write_bytes(shard.read_bytes()[:10000])
            until(lambda: "shorter than its index says" in connect(url).status()[0]["error"])
            shutil.copy(shard, base / "0004/variables")
            until(lambda: states() == {4: "AVAILABLE"})
            shutil.copytree(source, base / ".staging-2")
            shutil.rmtree(base / "2")
            (base / ".staging-2").rename(base / "2")
            shutil.rmtree(base / "0004")
            until(lambda: states() == {2: "AVAILABLE"})
            shutil.rmtree(base / "2")
            until(lambda: states() == {1: "AVAILABLE"})
        assert (traffic.failures, traffic.answered > 3) == ([], True)


def _worker_pids(server: Any) -> set[int]:
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    # multiprocessing also starts a helper process.
    return {int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()}


def answered_requests(url: str) -> float:
    """Returns the number of answered requests of a model from the metrics."""
    with urllib.request.urlopen(url + "/monitoring/prometheus/metrics", timeout=60) as response:
        lines = response.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(":tensorflow:serving:request_count{"))


def worker_that_answered(pids: set[int]) -> int:
    """Returns the worker that answered a request, which has the metrics file open."""
    return next(
        pid for pid in pids if any("/counter_" in str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir())
    )


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads /proc")
def test_killed_worker_is_replaced(exported: Callable[[str], Path]) -> None:
    with running("--model", str(exported("classifier").parent), "--workers", "2") as server:
        url = f"{server.url}/v1/models/classifier"

        def ready() -> bool:
            try:
                with urllib.request.urlopen(f"{server.url}/readyz", timeout=60) as response:
                    return response.status == 200
            except (urllib.error.URLError, ConnectionError):
                return False

        until(ready)
        before = _worker_pids(server)
        assert len(before) == 2
        assert connect(url, retries=8).predict(["the cat"])
        os.kill(worker_that_answered(before), signal.SIGKILL)
        # A connection may break together with its worker; a client retries.
        assert connect(url, retries=8).predict(["the cat"])
        until(lambda: len(_worker_pids(server)) == 2 and not _worker_pids(server) <= before)
        assert connect(url, retries=8).predict(["the cat"])
        until(ready)
        assert answered_requests(server.url) == 3
        assert server.stop()[0] == 0


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads /proc")
def test_workers_end_with_a_killed_supervisor(exported: Callable[[str], Path]) -> None:
    with running("--model", str(exported("classifier").parent), "--workers", "2") as server:
        workers = _worker_pids(server)
        server.process.kill()
        until(lambda: not any(_runs(pid) for pid in workers))


def _runs(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_model_that_cannot_be_served_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no exported model"):
        serve(tmp_path)
    (tmp_path / "1").mkdir()
    (tmp_path / "1/saved_model.pb").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="model m cannot be served: .*not a readable SavedModel"):
        serve([ServedModel("m", tmp_path)], ServerOptions(port=0, grpc_port=0))
    other = FileSystemStoragePathSourceConfig.ServableVersionPolicy()
    other.specific.versions.append(7)
    with pytest.raises(ValueError, match="model m cannot be served: Could not find any versions of model m"):
        serve([ServedModel("m", tmp_path, policy=other)], ServerOptions(port=0, grpc_port=0))
    with pytest.raises(ValueError, match="`workers` must be at least 1. Received: 0"):
        ServerOptions(workers=0)


def test_sigint_and_sigterm_stop_a_server_without_traceback() -> None:
    with _stopped_by_signals():
        raise KeyboardInterrupt
    before = signal.getsignal(signal.SIGTERM)
    with _stopped_by_signals():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_endless_body_does_not_delay_other_clients(exported: Callable[[str], Path]) -> None:
    with running("--model", str(exported("classifier").parent)) as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as half:
            head = "POST /v1/models/classifier:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n\r\n{"
            half.sendall(head.encode())
            assert connect(f"{server.url}/v1/models/classifier").predict(["the cat"])
        assert connect(f"{server.url}/v1/models/classifier").predict(["the cat"])


def test_deep_lists_do_not_crash_the_process(exported: Callable[[str], Path]) -> None:
    with running("--model", str(exported("classifier").parent)) as server:
        for depth in (8, 9, 32, 33, 64, 65, 254, 255, 900):
            for form in ("inputs", "instances"):
                body = f'{{"{form}": {"[" * depth}"a"{"]" * depth}}}'.encode()
                with pytest.raises(urllib.error.HTTPError) as refused:
                    urllib.request.urlopen(f"{server.url}/v1/models/classifier:predict", body, timeout=60)
                assert refused.value.code == 400
        assert connect(f"{server.url}/v1/models/classifier").predict(["the cat"])
        assert server.stop()[0] == 0


CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
# Inputs, and what the prediction shows. Offsets count characters, of which some take two units of a browser's strings.
PAGES = {
    "classifier": ("text=the+cat+sat", ['class="best"', "mineral", "légume"]),
    "pair_classifier": ("text=the+cat&text_pair=sat", ['class="best"', "mineral", "légume"]),
    "regression": ("text=the+cat+sat", ['class="big"']),
    "pretrainer": ("text=the+[MASK]+sat", ['class="filled"', 'class="best"']),
    "spans": ("question=the+dog&context=🐈+the+cat+sat+on+a+mat", ['class="bars"']),
    "entities": ("text=🐈🐈+cat+東京", ['class="entity correct t0"']),
    "choices": ("text=the+cat&choices=sat+on%0Aran+to", [">sat on<", ">ran to<"]),
    "backbone": ("text=the+cat", ["mean_output", 'class="vector"']),
}


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
def test_page_works_in_a_browser(exported: Callable[[str], Path], tmp_path: Path) -> None:
    with running("--model", *(str(exported(kind).parent) for kind in PAGES)) as server:
        for kind, (inputs, expected) in PAGES.items():
            command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]
            command += ["--virtual-time-budget=10000", "--dump-dom", f"{server.url}/#model={kind}&{inputs}&ask="]
            found = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
            answer = found[found.index('<div id="answer"') : found.index('id="request"')]
            assert 'class="verdict warn"' not in answer, answer
            assert [piece for piece in expected if piece not in answer] == [], answer
            # Marked by offsets, and as the server sent them.
            marked = re.findall(r'<span class="entity[^>]*>([^<]*)<span class="tag">', answer)
            assert marked == re.findall(r'data-name="Entity"[^>]*><bdi>([^<]*)<', answer)
            assert " ms" in found[found.index('id="latency"') :].partition("</span>")[0]
            assert f"/v1/models/{kind}:predict" in found[found.index('id="curl"') :].partition("</pre>")[0]
            assert "2 layers of 16" in found[found.index('id="card"') :]

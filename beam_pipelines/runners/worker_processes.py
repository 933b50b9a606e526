"""Watched worker processes of Beam's local runner; Beam itself waits forever for a dead worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any

from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_fn_api_pb2, endpoints_pb2
from apache_beam.runners.portability.fn_api_runner.worker_handlers import GrpcWorkerHandler, WorkerHandler
from google.protobuf import json_format, text_format

_COMMAND = [sys.executable, "-m", "beam_pipelines.runners.worker_main"]
# Errors of a worker are raised on the driver as well, so its log is not needed.
_QUIET = {"beam:option:default_sdk_harness_log_level:v1": "CRITICAL"}
RESUME = "run the same command again to continue."
_SECONDS_TO_END = 10.0
_SECONDS_BETWEEN_ANSWERS = 0.1
_RUNNING: list[WatchedWorker] = []


# Replaces Beam's handler of `--direct_running_mode=multi_processing`.
@WorkerHandler.register_environment(python_urns.SUBPROCESS_SDK, bytes)
class WatchedWorker(GrpcWorkerHandler):
    """One worker process. If it ends too early, all workers of the run are killed and the run fails."""

    def __init__(self, payload: bytes, state: Any, provision_info: Any, grpc_server: Any) -> None:
        super().__init__(state, provision_info, grpc_server)
        self._ending = threading.Event()
        self._closed = threading.Event()

    def start_worker(self) -> None:
        """Starts the process in a new session: Ctrl-C reaches only the driver, which ends its workers.

        The process ends when its standard input is closed; the operating system closes the pipe if the driver is
        killed.
        """
        values = {
            "CONTROL_API_SERVICE_DESCRIPTOR": self._descriptor(self.control_address),
            "LOGGING_API_SERVICE_DESCRIPTOR": self._descriptor(self.logging_api_service_descriptor().url),
            "PIPELINE_OPTIONS": self._options(),
            "WORKER_ID": self.worker_id,
        }
        self._process = subprocess.Popen(
            _COMMAND, env=os.environ | values, stdin=subprocess.PIPE, start_new_session=True
        )
        _RUNNING.append(self)
        threading.Thread(target=self._watch, name=f"watch_{self.worker_id}", daemon=True).start()

    def _options(self) -> str:
        """Returns the options of the pipeline, some of which are those of file systems, such as `--hdfs_host`."""
        options = json_format.MessageToDict(self.provision_info.provision_info.pipeline_options)
        return json.dumps(options | _QUIET)

    @staticmethod
    def _descriptor(url: str) -> str:
        return str(text_format.MessageToString(endpoints_pb2.ApiServiceDescriptor(url=url)))

    def _watch(self) -> None:
        status = self._process.wait()
        if self._ending.is_set():
            return
        workers = [worker for worker in _RUNNING if worker._grpc_server is self._grpc_server]
        for worker in workers:
            worker._end()
        # Repeated until the run has noticed, because it may be about to send another instruction.
        while not self._closed.wait(_SECONDS_BETWEEN_ANSWERS):
            for worker in workers:
                worker._answer(_obituary(status))

    def _end(self) -> None:
        self._ending.set()
        self._process.kill()

    def _answer(self, error: str) -> None:
        """Answers every open instruction with `error` on behalf of the process."""
        for number, future in list(self.control_conn._futures_by_id.items()):
            future.set(beam_fn_api_pb2.InstructionResponse(instruction_id=number, error=error))

    def close(self) -> None:
        """Ends the process; kills it if it still has instructions, because then the run failed or was interrupted."""
        self._ending.set()
        if self.control_conn._futures_by_id:
            self._process.kill()
        super().close()

    def stop_worker(self) -> None:
        """Waits until the process has ended."""
        self._closed.set()
        try:
            self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdin:
            self._process.stdin.close()
        _RUNNING.remove(self)


def _obituary(status: int) -> str:
    if status == -signal.SIGKILL:
        return f"PipelineError: a worker process was lost (SIGKILL: the machine may be out of memory); {RESUME}"
    signal_or_status = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    return f"WorkerError: a worker process was lost ({signal_or_status})"

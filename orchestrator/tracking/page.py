"""MLflow's page on a store, served on this machine alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import FrameType

from orchestrator.tracking.store import Store

HOST = "127.0.0.1"


def address(port: int) -> str:
    """The page with the list of experiments, in its face for training runs; its other one is for language models."""
    return f"http://{HOST}:{port}/#/experiments?workflowType=machine_learning"


def serve(store: Store, port: int) -> int:
    """Serve the page until interrupted or terminated; returns the server's exit code (0 after an interruption).

    One worker, which answers in threads: it starts in a third of the time of MLflow's four, and one person looks at it.
    The server's own children are stopped with it: it gets a process group of its own, and the group the signal.
    """
    command = [sys.executable, "-m", "mlflow", "ui", "--host", HOST, "--port", str(port), "--workers", "1"]
    environment = os.environ | {
        # Not as an option: it may hold a password, and everybody on a machine can read command lines.
        "MLFLOW_BACKEND_STORE_URI": store.uri,
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }
    before = signal.signal(signal.SIGTERM, _interrupt)
    server = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        return server.wait()
    except KeyboardInterrupt:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait()
        return 0
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt

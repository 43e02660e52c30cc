"""MLflow's page on a store, served on this machine alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import FrameType

from mlflow import MlflowClient

from orchestrator.tracking.store import Store
from orchestrator.tracking.views import PARAMETER, TAG, TRANSITIONS

HOST = "127.0.0.1"


TRAINING = "workflowType=machine_learning"
"""Asks for the page's face for training runs; its other one is for language models."""
NEWEST = 5
"""Of how many experiments the transitions are pointed to."""


def address(port: int) -> str:
    """The page with the list of experiments."""
    return f"http://{HOST}:{port}/#/experiments?{TRAINING}"


def transitions(store: Store, port: int) -> dict[str, str]:
    """For the experiments last written to, by name: the page with their transitions side by side."""
    found = MlflowClient(store.uri).search_experiments(order_by=["last_update_time DESC"])
    shown = [each for each in found if TAG + TRANSITIONS in each.tags][:NEWEST]
    view = f"{TRAINING}&{PARAMETER}={TRANSITIONS}"
    return {each.name: f"http://{HOST}:{port}/#/experiments/{each.experiment_id}/runs?{view}" for each in shown}


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

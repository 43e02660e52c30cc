"""MLflow's page of a store, served on loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from types import FrameType

from mlflow import MlflowClient
from mlflow.entities import Experiment, Run

from orchestrator import environment
from orchestrator.record.mlflow_views import PARAMETER, RUNS, TAG, TRANSITIONS
from orchestrator.record.store import Store, all_runs, store_errors

HOST = "127.0.0.1"
TRAINING = "workflowType=machine_learning"
"""Selects the page for training runs; the other one is for language models."""
CHARTS = "compareRunsMode=CHART"
"""Selects the charts of a view instead of its table."""
END_S = 5.0
"""Time for MLflow's server to end: on a busy machine it took more than a minute."""


def address(port: int) -> str:
    """The page with the list of experiments."""
    return f"http://{HOST}:{port}/#/experiments?{TRAINING}"


def places(store: Store, port: int) -> dict[str, dict[str, str]]:
    """Addresses of each sweep of the store on MLflow's page at ``port``, by the sweep's id and by what they show: the
    views of its experiment, but for those that a person deleted, and its record.

    Raises :class:`StoreError` if the store fails."""
    with store_errors(store):
        client = MlflowClient(store.uri)
        known = {each.experiment_id: each for each in client.search_experiments()}
        runs = all_runs(client, list(known), "tags.kind = 'sweep'")
    return {run.data.tags["sweep"]: _places(known[run.info.experiment_id], run, port) for run in runs}


def _places(experiment: Experiment, run: Run, port: int) -> dict[str, str]:
    base, found = f"http://{HOST}:{port}/#/experiments/{experiment.experiment_id}/runs", dict[str, str]()
    for key in (TRANSITIONS, RUNS):
        if TAG + key in experiment.tags:
            view = f"{base}?{TRAINING}&{PARAMETER}={key}"
            found |= {f"{key.capitalize()} in MLflow": view, f"{key.capitalize()} as charts": f"{view}&{CHARTS}"}
    return found | {"Its record in MLflow": f"{base}/{run.info.run_id}?{TRAINING}"}


def serve(store: Store, port: int) -> int:
    """Serve the page until interrupted or terminated; returns the server's exit code (0 after an interruption).

    One worker, which answers in threads, starts in a third of the time of MLflow's four. The server has a process group
    of its own, so that its children are stopped with it.
    """
    command = [sys.executable, "-m", "mlflow", "ui", "--host", HOST, "--port", str(port), "--workers", "1"]
    settings = environment.ours(os.environ) | {
        # Not as an option: it may hold a password, and all users of a machine can read command lines.
        "MLFLOW_BACKEND_STORE_URI": store.uri,
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "PYTHONSAFEPATH": "1",
    }
    before = signal.signal(signal.SIGTERM, _interrupt)
    # Not in the working directory: its web server imports mlflow from there first, whatever the settings.
    server = subprocess.Popen(command, env=settings, cwd=environment.private_directory(), start_new_session=True)
    try:
        return server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        _end(server)
        signal.signal(signal.SIGTERM, before)


def _end(server: subprocess.Popen[bytes]) -> None:
    """End a server and its children: by SIGTERM, and after :data:`END_S`, or when interrupted again, by SIGKILL."""
    _signal_all(server, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
        server.wait(END_S)
    _signal_all(server, signal.SIGKILL)
    server.wait()


def _signal_all(server: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):  # The group has ended; macOS raises the second.
        os.killpg(server.pid, number)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt

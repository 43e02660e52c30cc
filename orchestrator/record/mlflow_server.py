"""Serves MLflow's page of a store on a Unix socket that only this user can open."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from orchestrator.home.foreign_database import open_database
from orchestrator.record.mlflow_store import Store, store_errors
from orchestrator.record.mlflow_views import RUNS, TRANSITIONS, VIEW_TAG_PREFIX, address_of
from orchestrator.space.runs import IMPORTED
from orchestrator.system import environment

TRAINING = "workflowType=machine_learning"
"""Selects the page for training runs instead of the page for language models."""
CHARTS = "compareRunsMode=CHART"
"""Selects charts instead of the table."""
END_S = 5.0
"""Seconds for MLflow's server to end after SIGTERM. On a busy machine it took more than a minute."""
ALL_EXPERIMENTS = f"#/experiments?{TRAINING}"
"""Fragment that the address of MLflow's page needs for the list of experiments."""
# Like MLflow's client, skip the trash, and return the newest first.
SWEEPS = """
    SELECT runs.experiment_id, runs.run_uuid, name.value
    FROM tags AS kind
    JOIN runs ON runs.run_uuid = kind.run_uuid
    JOIN experiments ON experiments.experiment_id = runs.experiment_id
    LEFT JOIN tags AS name ON name.run_uuid = runs.run_uuid AND name.key = 'sweep'
    WHERE kind.key = 'kind' AND kind.value = 'sweep'
    AND runs.lifecycle_stage = 'active' AND experiments.lifecycle_stage = 'active'
    ORDER BY runs.start_time DESC, runs.run_uuid
"""
"""Query for the records of sweeps: the experiment, the record's id and the sweep's id."""
VIEWS = "SELECT experiment_id, key FROM experiment_tags WHERE key IN (?, ?)"
"""Query for the names of the views that experiments have."""


def places(store: Store, page: str) -> dict[str, dict[str, str]]:
    """Return addresses below MLflow's page, by sweep id and by content.

    They show the transitions and runs of all sweeps of the experiment, and the sweep's record. The database is read
    without MLflow, because to import MLflow takes longer than all other work of `ui` until its first page.

    Args:
        store: A store with a database.
        page: Address of MLflow's page.

    Raises:
        StoreError: If the database cannot be read.
    """
    assert store.database is not None, "a server has its own page"
    with store_errors(store), open_database(store.database) as connection:
        tags_of: defaultdict[int, set[str]] = defaultdict(set)
        for experiment, tag in connection.execute(VIEWS, [f"{VIEW_TAG_PREFIX}{view}" for view in (TRANSITIONS, RUNS)]):
            tags_of[experiment].add(tag)
        sweeps = connection.execute(SWEEPS).fetchall()
    links = {}
    for experiment, run_id, sweep_id in sweeps:
        base = f"{page}#/experiments/{experiment}/runs"
        transitions = f"{base}?{TRAINING}&{address_of(TRANSITIONS, tags_of[experiment])}"
        # If a sweep has several records, the oldest comes last and replaces the others here.
        links[(sweep_id or "").removesuffix(f" {IMPORTED}")] = {
            "Transitions in MLflow": transitions,
            "Transitions as charts": f"{transitions}&{CHARTS}",
            "Runs in MLflow": f"{base}?{TRAINING}&{address_of(RUNS, tags_of[experiment])}",
            "This sweep in MLflow": f"{base}/{run_id}?{TRAINING}",
        }
    return links


def serve(store: Store, socket: Path) -> int:
    """Serve the page on a Unix socket until interrupted or terminated.

    Args:
        store: The store.
        socket: Path of the socket. MLflow lets every user open it, so only this user may open its directory.

    Returns:
        The server's exit code, or 0 after an interruption.
    """
    # One worker with threads starts in a third of the time of MLflow's default, four workers.
    command = [sys.executable, "-m", "mlflow", "ui", "--workers", "1", "--no-serve-artifacts"]
    command += ["--uvicorn-opts", f"--log-level=warning --uds={shlex.quote(str(socket))}"]
    settings = {name: value for name, value in os.environ.items() if not environment.is_foreign(name)} | {
        # Not an option: it may contain a password, and every user of a machine can read command lines.
        "MLFLOW_BACKEND_STORE_URI": store.uri,
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "PYTHONSAFEPATH": "1",
        # MLflow opens files there whose names everyone can compute, and follows the links of other users.
        "TMPDIR": str(socket.parent),
        "PYTHONWARNINGS": "ignore",  # MLflow itself uses its libraries in deprecated ways.
    }
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    server: subprocess.Popen[bytes] | None = None
    try:
        # The web server imports mlflow from its working directory first, so no other user may write that directory.
        # In a separate process group, the server's children can be stopped with it.
        server = subprocess.Popen(command, env=settings, cwd=environment.private_directory(), start_new_session=True)
        return server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        if server is not None:
            _end(server)
        signal.signal(signal.SIGTERM, before)


def _end(server: subprocess.Popen[bytes]) -> None:
    """Stop a server and its children with SIGTERM, then with SIGKILL after :data:`END_S` or another interruption."""
    for number, patience_s in ((signal.SIGTERM, END_S), (signal.SIGKILL, None)):
        # The group may have ended already. macOS raises the second error.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(server.pid, number)
        with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            server.wait(patience_s)

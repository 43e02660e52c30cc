"""The MLflow store tried out, without a trace in it."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from mlflow import MlflowClient

from orchestrator.errors import SweepError
from orchestrator.tracking import store
from orchestrator.tracking.login import check_login
from orchestrator.tracking.new_store import make_whole
from orchestrator.tracking.outage import outages


def try_store(home: Path) -> tuple[str, float]:
    """Where a home's record lies, and seconds until a record is written and read back.

    A store of our own is tried with a new one beside it, in ``home``, which goes again; a server is asked what it
    holds. Raises what :func:`orchestrator.tracking.store.check` and :func:`check_login` do, :class:`SweepError` where a
    record cannot be read back.
    """
    chosen = store.choose(home)
    if chosen.artifacts is None or (home / store.DATABASE).is_file():
        store.check(chosen)  # It would begin a file of our own that is not there yet.
    begun = time.perf_counter()
    if chosen.artifacts is None:
        check_login(chosen)
        with outages():
            MlflowClient(chosen.uri).search_experiments(max_results=1)
        return chosen.shown, time.perf_counter() - begun
    with tempfile.TemporaryDirectory(prefix=".doctor-", dir=home) as aside:
        own = store.own(Path(aside))
        make_whole(own)
        client = MlflowClient(own.uri)
        assert own.artifacts is not None
        run = client.create_run(client.create_experiment("doctor", own.artifacts.as_uri())).info.run_id
        client.log_metric(run, "answer", 42.0)
        read = client.get_run(run).data.metrics.get("answer")
    if read != 42.0:
        raise SweepError(f"a record in a new store in {home} reads {read} where 42.0 was written")
    return chosen.shown, time.perf_counter() - begun

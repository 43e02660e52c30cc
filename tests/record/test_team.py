"""A sweep recorded in a team's MLflow, with a login; what servers refuse is in test_store.py."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from orchestrator.home.files import Home
from orchestrator.record.store import VARIABLE
from tests.record.team import ADMIN, ADMIN_PASSWORD, PASSWORDS, Team, missing, serving_team
from tests.sweep.sweeps import ended

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "orchestrator", "run"]
ANN, ANNS_PASSWORD = "ann", "anns-password-Fc6uRb"
SECRETS = (*PASSWORDS, ANNS_PASSWORD)

pytestmark = [
    pytest.mark.night,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.xdist_group("team"),
]


@pytest.fixture(scope="module", name="team")
def running_team() -> Iterator[Team]:
    with serving_team(login_kept_s=60) as team:
        team.add_user(ANN, ANNS_PASSWORD)
        yield team


def records(team: Team, experiment: str) -> tuple[MlflowClient, list[Run]]:
    """All that an experiment holds, as the administrator sees it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_USERNAME", ADMIN)
        patch.setenv("MLFLOW_TRACKING_PASSWORD", ADMIN_PASSWORD)
        client = MlflowClient(team.uri)
        found = client.get_experiment_by_name(experiment)
        return client, [] if found is None else list(client.search_runs([found.experiment_id], max_results=1000))


def kinds(runs: list[Run]) -> Counter[str]:
    return Counter(run.data.tags["kind"] for run in runs)


def assert_no_password_in(*places: Path) -> None:
    for place in places:
        for path in [place] if place.is_file() else place.rglob("*"):
            if path.is_file():
                content = path.read_bytes()
                assert not [secret for secret in SECRETS if secret.encode() in content], path


def test_a_sweep_is_recorded_whole_and_no_password_with_it(team: Team, tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    login = {"MLFLOW_TRACKING_USERNAME": ANN, "MLFLOW_TRACKING_PASSWORD": ANNS_PASSWORD}
    done = subprocess.run(
        [*COMMAND, "add_vs_add_prod", "--profile", "smoke", "--local-debug", "--home", str(tmp_path)],
        env=kept | login | {VARIABLE: team.uri, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    said = done.stdout + done.stderr
    (tmp_path / "said").write_text(said)
    assert done.returncode == 0, said
    assert "records wait" not in said
    assert "View run" not in said  # MLflow's own lines, two a run.
    [sweep_id] = Home(tmp_path).sweep_ids()
    trained = {entry.key: entry.outcome for entry in ended(tmp_path, sweep_id)}

    client, runs = records(team, "add_vs_add_prod")
    assert kinds(runs) == {"sweep": 1, "run": len(trained), "transition": 2}
    assert {run.info.status for run in runs} == {"FINISHED"}
    objects = team.kept()
    for run in runs:
        if run.data.tags["kind"] != "run":
            continue
        outcome = trained[run.data.tags["run_key"]]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MLFLOW_TRACKING_USERNAME", ADMIN)
            patch.setenv("MLFLOW_TRACKING_PASSWORD", ADMIN_PASSWORD)
            losses = client.get_metric_history(run.info.run_id, "loss")
            names = {each.path for each in client.list_artifacts(run.info.run_id)}
        assert [each.value for each in losses] == [each.loss for each in outcome.curve]
        assert "arrays.npz" in names
        assert any(f"/{run.info.run_id}/artifacts/arrays.npz" in key for key in objects), sorted(objects)[:5]

    assert_no_password_in(tmp_path, team.log)
    assert not [key for key, body in objects.items() if any(secret.encode() in body for secret in SECRETS)]
    assert not [secret for secret in SECRETS if secret in dumped(team)]


def dumped(team: Team) -> str:
    """All that the database holds, as text."""
    done = subprocess.run(
        ["pg_dump", "--inserts", team.database.replace("+psycopg2", "")], capture_output=True, text=True, check=True
    )
    return done.stdout

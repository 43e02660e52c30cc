"""Sweeps recorded in a team's MLflow: with a login, without one, with a wrong one, and in what is somebody else's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from orchestrator.home.files import Home
from orchestrator.record.store import VARIABLE
from tests.record.team import ADMIN, ADMIN_PASSWORD, PASSWORDS, Team, missing, serving_team
from tests.sweep.sweeps import ended, spec

ROOT = Path(__file__).resolve().parents[2]
ANN, ANNS_PASSWORD = "ann", "anns-password-Fc6uRb"
BOB, BOBS_PASSWORD = "bob", "bobs-password-Zt3kMv"
WRONG = "no-password-of-anybody-Pl9"
SECRETS = (*PASSWORDS, ANNS_PASSWORD, BOBS_PASSWORD, WRONG)

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
        team.add_user(BOB, BOBS_PASSWORD)
        yield team


@dataclass(frozen=True)
class Said:
    """How a command ended, and all that it said."""

    code: int
    text: str


@dataclass(frozen=True)
class Person:
    """Somebody at a terminal with a home directory, who gives this login or, with an empty name, none."""

    team: Team
    home: Path
    name: str
    password: str

    def asks(self, *words: str) -> Said:
        """Run a command of the program."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
        login = {"MLFLOW_TRACKING_USERNAME": self.name, "MLFLOW_TRACKING_PASSWORD": self.password}
        environment = kept | {VARIABLE: self.team.uri, "PYTHONPATH": str(ROOT)} | (login if self.name else {})
        command = [sys.executable, "-m", "orchestrator", *words, "--home", str(self.home)]
        done = subprocess.run(command, env=environment, cwd=self.home, capture_output=True, text=True, timeout=300)
        (self.home / f"said-{len(list(self.home.glob('said-*')))}").write_text(done.stdout + done.stderr)
        return Said(done.returncode, done.stdout + done.stderr)


def small_sweep(home: Path, name: str) -> str:
    """A sweep of a family that trains nothing, as a file."""
    home.mkdir(exist_ok=True)
    file = home / f"{name}.yaml"
    file.write_text(spec(name=name).to_yaml())
    return str(file)


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
    said = Person(team, tmp_path, ANN, ANNS_PASSWORD).asks(
        "run", "add_vs_add_prod", "--profile", "smoke", "--local-debug"
    )
    assert said.code == 0, said.text
    assert "records wait" not in said.text
    assert "View run" not in said.text  # MLflow's own lines, two a run.
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


@pytest.mark.parametrize(
    ("name", "password", "why"),
    [(ANN, WRONG, "refuses this user name or password"), ("", "", "asks for a login")],
)
def test_a_refused_login_says_what_to_set_before_anything_is_trained(
    team: Team, tmp_path: Path, name: str, password: str, why: str
) -> None:
    experiment = f"refused_{name or 'nobody'}"
    space = small_sweep(tmp_path, experiment)
    person = Person(team, tmp_path, name, password)
    for words in (("run", space, "--local-debug"), ("sync",)):
        said = person.asks(*words)
        assert said.code == 1, said.text
        assert f"the MLflow store {team.uri}: it {why}: set MLFLOW_TRACKING_USERNAME and" in said.text
        assert "Traceback" not in said.text
        if words[0] == "run":
            assert not (tmp_path / "sweeps").exists()  # Nothing is trained.
            Person(team, tmp_path, ANN, ANNS_PASSWORD).asks("run", space, "--local-debug")
    [sweep_id] = Home(tmp_path).sweep_ids()
    found = kinds(records(team, experiment)[1])
    assert found == {"sweep": 1, "run": len(ended(tmp_path, sweep_id)), "transition": 2}
    assert_no_password_in(tmp_path, team.log)


def test_an_experiment_of_somebody_else_wants_a_permission(team: Team, tmp_path: Path) -> None:
    anns, bobs = tmp_path / "ann", tmp_path / "bob"
    space = small_sweep(anns, "shared")
    assert Person(team, anns, ANN, ANNS_PASSWORD).asks("run", space, "--local-debug").code == 0
    there = len(records(team, "shared")[1])

    small_sweep(bobs, "shared")
    bob = Person(team, bobs, BOB, BOBS_PASSWORD)
    said = bob.asks("run", space, "--local-debug")
    assert said.code == 0, said.text
    assert "permission MANAGE" in said.text
    assert "Traceback" not in said.text
    _, runs = records(team, "shared")
    assert len(runs) == there

    wanted = {"resource_type": "experiment", "resource_id": runs[0].info.experiment_id, "permission": "MANAGE"}
    team.ask("3.0/mlflow/users/permissions/grant", {"username": BOB, **wanted})
    synced = bob.asks("sync")
    assert synced.code == 0, synced.text
    assert kinds(records(team, "shared")[1])["sweep"] == 2


def dumped(team: Team) -> str:
    """All that the database holds, as text."""
    done = subprocess.run(
        ["pg_dump", "--inserts", team.database.replace("+psycopg2", "")], capture_output=True, text=True, check=True
    )
    return done.stdout

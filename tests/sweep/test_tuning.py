"""Tuning before a sweep: its runs are stored, listed and removed like all others, and the sweep uses the tuned
settings."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from mlflow import MlflowClient

from orchestrator.history.sweeps import load_sweep
from orchestrator.home.directories import Home
from orchestrator.home.run_files import read_outcome
from orchestrator.record import mlflow_store
from orchestrator.space.differences import differences
from orchestrator.space.runs import Run
from orchestrator.space.spec import SweepSpec
from orchestrator.sweep.tuning_study import LEARNED_ACCURACY, learned_at
from orchestrator.system.errors import SweepError
from tests.scripted import events
from tests.sweep.sweeps import HASTE, only_sweep, printed, quiet, remembered, run_here, scripted, spec
from trainables.base import Status

pytestmark = pytest.mark.usefixtures("undrawn")

ROOT = Path(__file__).resolve().parents[2]


def tuned_spec(**changes: object) -> SweepSpec:
    return spec(sizes=[64, 96], settings={"haste": 0.2}, tune={**HASTE, **changes})


def tuning_runs(home: Path, place: int = 0) -> list[Run]:
    """Return the tuning runs of a sweep, by default the newest one."""
    return list(remembered(home, Home(home).sweep_ids()[place]).trials)


def logged(home: Path, settings: Mapping[str, object] | None = None) -> SweepSpec:
    """Return a spec of one mix and two runs, tuned with up to 13 runs by the family that logs its training."""
    return scripted(
        home / "log",
        {"haste": 0.2, **(settings or {})},
        sizes=[64, 96],
        tune={**HASTE, "trials": 4},
        resources={"checkpoint_every_s": 1e-9, "max_stack": 4},
    )


def evaluated(home: Path) -> list[str]:
    """Return the evaluations of all runs in order."""
    return [f"{item.mix} {item.size} {item.seed} {item.haste} {item.step}" for item in events(home / "log")]


def test_a_tuning_run_is_stored_and_ends_as_soon_as_it_has_learned(tmp_path: Path) -> None:
    wanted = logged(tmp_path)
    run_here(wanted, tmp_path)
    entries = tuning_runs(tmp_path)
    assert {entry.request.until for entry in entries} == {LEARNED_ACCURACY}
    for entry in entries:
        directory = Home(tmp_path).runs / entry.key
        assert read_outcome(directory) == entry.outcome
        assert entry.outcome.status is Status.FINISHED
        assert entry.outcome.steps == (3 if learned_at(entry.outcome.curve, "add") is None else 1)
        assert sorted(path.name for path in directory.iterdir()) == ["contents.json", "origin.json", "outcome.json"]
    learned = [entry for entry in entries if entry.outcome.steps == 1]
    assert 0 < len(learned) < len(entries)
    # No run continued after it had learned.
    ends = Counter(line.rsplit(" ", 1)[1] for line in Counter(evaluated(tmp_path)))
    assert ends == {"1": len(entries) + 2, "2": len(entries) - len(learned) + 2, "3": len(entries) - len(learned) + 2}


def test_a_kill_during_tuning_loses_no_finished_run(tmp_path: Path) -> None:
    wanted = logged(tmp_path)
    (tmp_path / "log.dies").write_text("15")
    code = (
        "import sys\nfrom pathlib import Path\nfrom orchestrator.space.spaces import load_space\n"
        "from tests.sweep.sweeps import run_here\nrun_here(load_space(sys.argv[1]), Path(sys.argv[2]))"
    )
    (tmp_path / "space.yaml").write_text(wanted.to_yaml())
    killed = subprocess.run([sys.executable, "-c", code, tmp_path / "space.yaml", tmp_path], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    files = only_sweep(tmp_path)
    known = tuning_runs(tmp_path)
    assert known
    # Remove the last entry, as if the driver had died before writing it.
    lines = files.journal.read_bytes().splitlines(keepends=True)
    files.journal.write_bytes(b"".join(lines[:-1]))
    before = evaluated(tmp_path)
    run_here(wanted, tmp_path, resume=files.id)
    # Only the unreported evaluation was trained again.
    again = Counter(evaluated(tmp_path)) - Counter(set(Counter(evaluated(tmp_path))))
    step = before[-1].rsplit(" ", 1)[1]
    assert again == Counter(line for line in before[-4:] if line.endswith(f" {step}"))
    entries = tuning_runs(tmp_path)
    assert {entry.key for entry in known} <= {entry.key for entry in entries}
    assert len({entry.key for entry in entries}) == len(entries)
    undisturbed = tmp_path / "undisturbed"
    undisturbed.mkdir()
    run_here(wanted.model_copy(), undisturbed)
    existing, resumed = (load_sweep(Home(home), Home(home).sweep_ids()[0]) for home in (undisturbed, tmp_path))
    assert existing.spec.tuned == resumed.spec.tuned != {}


def test_an_extended_sweep_keeps_the_tuned_settings(tmp_path: Path) -> None:
    wanted = logged(tmp_path)
    run_here(wanted, tmp_path)
    first = only_sweep(tmp_path).id
    before = len(evaluated(tmp_path))
    run_here(wanted.model_copy(update={"sizes": (64, 96, 128)}), tmp_path, extend=first)
    added = {line.split(" ")[1] for line in evaluated(tmp_path)[before:]}
    assert added == {"128"}, "nothing is tuned or trained again"
    tuned = [load_sweep(Home(tmp_path), sweep_id).spec.tuned for sweep_id in Home(tmp_path).sweep_ids()]
    assert tuned[0] == tuned[1] != {}


def test_a_failed_run_ends_the_tuning_and_is_retried_on_resume(tmp_path: Path) -> None:
    wanted = logged(tmp_path, {"times": 99, "trouble": "bug", "size": 64})
    tries = []
    for resume in (None, ""):
        with pytest.raises(SweepError, match=r"(?s)a tuning run of add failed:.*a bug that was mended since"):
            run_here(wanted, tmp_path, resume=resume)
        tries.append(len((tmp_path / "log.met").read_text()))
        assert tuning_runs(tmp_path)[-1].outcome.status is Status.FAILED
    assert 0 < tries[0] < tries[1]


def test_a_sweep_is_tuned_without_ray_and_another_sweep_reuses_the_tuning(tmp_path: Path) -> None:
    wanted = tuned_spec(trials=6, seeds=4)
    console = quiet()
    result = run_here(wanted, tmp_path, console=console, record="mlflow")
    output = printed(console)
    assert "tuning add at units 64 and 96: up to 6 trials" in output
    assert "tuning add: not learned at units 64, seed 1000000 with haste 0.2" in output
    assert "tuning add: learned in " in output
    assert re.search(r"tuned add: haste [\d.]+, \d of 8 runs learned \(0 of 8 runs learned as written; better", output)
    sweep = load_sweep(Home(tmp_path), Home(tmp_path).sweep_ids()[0])
    haste = sweep.spec.tuned["add"]["haste"]
    assert result.tuned[0] == f"add: tuned: haste {haste:.3g}"
    assert result.tuned[0] in output
    assert differences(wanted, sweep.spec) == {}
    client = MlflowClient(mlflow_store.choose_store(tmp_path).uri)
    experiments = [item.experiment_id for item in client.search_experiments()]
    runs = client.search_runs(experiments, "tags.kind = 'run'")
    assert str(haste) in {run.data.params["haste"] for run in runs}
    again = quiet()
    assert run_here(wanted.model_copy(update={"seed": 20}), tmp_path, console=again).tuned == result.tuned
    assert "learned at units" not in printed(again)

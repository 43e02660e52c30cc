"""Tuning: a study keeps what finished, is found again by whoever asks the same, and a sweep runs with what it found."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient

from orchestrator.engine import lifecycle
from orchestrator.engine.files import Home
from orchestrator.engine.study import Study, TrialJob
from orchestrator.engine.sweep import RunOptions, run_sweep
from orchestrator.engine.tuning import sizes_around
from orchestrator.engine.tuning_worker import TuningWorker
from orchestrator.errors import SweepError, UserError
from orchestrator.spaces import load_space
from orchestrator.spec import SweepSpec
from orchestrator.tracking import store
from orchestrator.tuning.objective import TuningRun
from tests.engine.sweeps import printed, quiet, spec

HASTE = {"settings": {"haste": {"from": 0.1, "to": 30.0, "scale": "log"}}, "trials": 3, "sizes": [24, 48]}


def asked(**changes: object) -> SweepSpec:
    return spec(settings={"haste": 0.2}, tune={**HASTE, **changes})


def study(home: Path, **changes: object) -> Study:
    wanted = asked(**changes)
    return Study(wanted, wanted.baseline, (24, 48), Home(home))


def train(worker: TuningWorker) -> tuple[TuningRun, ...]:
    while not worker.done:
        worker.advance()
    return tuple(worker.runs)


def test_a_trial_trains_every_size_with_seeds_of_its_own(tmp_path: Path) -> None:
    one = study(tmp_path)
    job = TrialJob.from_config(json.loads(json.dumps(one.job(one.begin({"haste": 3.0})).to_config())))
    runs = train(TuningWorker(job))
    assert [(run.size, run.seed) for run in runs] == [(s, 1_000_000 + k) for s in (24, 48) for k in (0, 1)]
    assert [run.learned_at is not None for run in runs] == [False, False, True, True]
    one.ended(0, runs)
    assert one.trials[0].score == pytest.approx(sum(run.score(2.0) for run in runs) / 4)


def test_what_finished_is_kept_when_a_driver_is_killed(tmp_path: Path) -> None:
    first = study(tmp_path)
    first.ended(first.begin({"haste": 0.2}), (TuningRun(24, 1_000_000, 2.0, 0.9, 3),))
    number = first.begin({"haste": 3.0})
    worker = TuningWorker(first.job(number))
    while not worker.runs:
        worker.advance()  # One size of two, then the end.
    again = study(tmp_path)
    assert [trial.score for trial in again.trials] == [2.0, None]
    assert again.begin({"haste": 3.0}) == number
    resumed = TuningWorker(again.job(number))
    assert resumed.runs == worker.runs
    again.ended(number, train(resumed))
    again.ended(number, ())
    assert len(again.trials[number].runs) == 4
    assert again.result().best.settings == {"haste": 3.0} if (again.trials[1].score or 9) < 2 else {"haste": 0.2}


def test_a_study_is_shared_by_those_who_ask_the_same(tmp_path: Path) -> None:
    key = study(tmp_path).key
    assert study(tmp_path, trials=9).key == key
    for change in ({"penalty": 3.0}, {"seeds": 1}, {"seed": 7_000_000}, {"size_power": 0.5}):
        assert study(tmp_path, **change).key != key
    wanted = asked()
    others = [
        (wanted, wanted.mixes[1], (24, 48)),
        (wanted, wanted.baseline, (16, 48)),
        (wanted.model_copy(update={"settings": replace(wanted.settings, haste=0.3)}), wanted.baseline, (24, 48)),
    ]
    assert all(Study(*other, Home(tmp_path)).key != key for other in others)
    elsewhere = wanted.model_copy(update={"seed": 5, "seeds": 1, "sizes": (8, 16), "name": "other"})
    assert Study(elsewhere, wanted.baseline, (24, 48), Home(tmp_path)).key == key


def test_fewer_trials_than_there_are_look_at_the_first_ones_alone(tmp_path: Path) -> None:
    one = study(tmp_path)
    for place, score in enumerate((3.0, 2.0, 1.0)):
        one.ended(one.begin({"haste": 1.0 + place}), (TuningRun(24, 0, score, 0.9, 3),))
    assert one.done
    best = one.result().best
    assert best.settings == {"haste": 3.0}
    assert best.base_size == pytest.approx((24 * 48) ** 0.5)
    assert study(tmp_path, trials=2).result().best.settings == {"haste": 2.0}
    assert not study(tmp_path, trials=4).done


def test_the_default_values_come_first_where_the_ranges_hold_them(tmp_path: Path) -> None:
    assert study(tmp_path).default == {"haste": 0.2}
    assert study(tmp_path, settings={"haste": {"from": 1.0, "to": 2.0}}).default == {}


def test_one_process_tunes_at_a_time(tmp_path: Path) -> None:
    said = "being tuned in the same way by another process"
    with study(tmp_path).driving(), pytest.raises(UserError, match=said), study(tmp_path).driving():
        pass


def test_a_damaged_trial_is_named(tmp_path: Path) -> None:
    one = study(tmp_path)
    one.begin({"haste": 1.0})
    (one.directory / "trial-0000.json").write_text("{")
    with pytest.raises(SweepError, match=r"trial-0000\.json does not hold a readable trial"):
        study(tmp_path)


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [(16, 24, (16, 24)), (None, 8, (8, 16)), (32, None, (24, 32)), (None, None, (24, 32)), (8, 16, (8, 16))],
)
def test_sizes_lie_around_the_transition(low: int | None, high: int | None, found: tuple[int, ...]) -> None:
    assert sizes_around((8, 16, 24, 32), low, high) == found


def test_without_ray_nothing_is_tuned_but_what_was_is_used(tmp_path: Path) -> None:
    options = RunOptions(home=tmp_path, local_debug=True)
    wanted = asked(sizes="auto")
    console = quiet()
    with pytest.raises(UserError, match="add is not tuned yet, and tuning needs Ray"):
        run_sweep(wanted, options, console)
    # With the space's own haste no size learns, so that the largest ones are tuned at.
    assert "tuning: a first estimate of each transition" in printed(console)
    assert "tuning add at units 64 and 96" in printed(console)
    for mix in wanted.mixes:
        one = Study(wanted, mix, (64, 96), Home(tmp_path))
        for haste in (0.3, 3.0, 20.0):
            number = one.begin({"haste": haste})
            one.ended(number, train(TuningWorker(one.job(number))))
    console = quiet()
    found = run_sweep(wanted, replace(options, resume=""), console)
    assert "first estimate" not in printed(console)
    assert found.tuned == ("add: tuned (3 trials): haste 3", "add+prod: tuned (3 trials): haste 3")
    assert "add: tuned (3 trials): haste 3" in printed(console)
    # A midpoint of 40 units, and not the 1 500 of the space's own haste.
    value = found.mix("add").target.transition.relative.value
    assert value is not None
    assert 40 < value < 60
    sweep = lifecycle.load(Home(tmp_path), Home(tmp_path).sweep_ids()[0])
    assert sweep.spec.tuned["add"].settings == {"haste": 3.0}
    assert [tuning.mix for tuning in sweep.tunings] == ["add", "add+prod"]
    assert wanted.differences(sweep.spec) == {}
    client = MlflowClient(store.choose(tmp_path).uri)
    experiments = [each.experiment_id for each in client.search_experiments()]
    recorded = client.search_runs(experiments, "tags.kind = 'tuning'")
    assert {run.data.tags["mix"]: run.data.params["tuned.haste"] for run in recorded} == {
        "add": "3.0",
        "add+prod": "3.0",
    }
    history = client.get_metric_history(recorded[0].info.run_id, "best")
    assert [point.step for point in history] == [0, 1, 2]
    runs = client.search_runs(experiments, "tags.kind = 'run'")
    assert {run.data.params["haste"] for run in runs} == {"3.0"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_optuna_tunes_under_ray_and_a_second_sweep_reuses_it(tmp_path: Path) -> None:
    wanted = asked(trials=4)
    console, again = quiet(), quiet()
    found = run_sweep(wanted, RunOptions(home=tmp_path), console)
    said = printed(console)
    assert said.count("steps to learn (haste") == 8
    assert "tuning add, trial 4 of 4" in said
    best = lifecycle.load(Home(tmp_path), Home(tmp_path).sweep_ids()[0]).tunings[0]
    scores = [trial.score for trial in best.trials]
    assert best.trials[0].values == {"haste": 0.2} or 0.2 in [trial.values["haste"] for trial in best.trials[:2]]
    assert None not in scores
    assert len({trial.values["haste"] for trial in best.trials}) == 4
    assert found.tuned[0].startswith("add: tuned (4 trials): haste ")
    # Where all is tuned, nothing needs Ray.
    run_sweep(wanted.model_copy(update={"seed": 20}), RunOptions(home=tmp_path, local_debug=True), again)
    assert "steps to learn (haste" not in printed(again)
    assert found.tuned[0] in printed(again)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_real_models_are_tuned_and_swept(tmp_path: Path) -> None:
    block = (
        "tune={settings: {training: {learning_rate: {from: 1.0e-3, to: 3.0e-2, scale: log}}}, trials: 3, seeds: 1, "
        "sizes: [4, 8]}"
    )
    smoke = ["sizes=[4, 8]", "seeds=1", "mixes=[add]", "settings.training.steps=100", "search={method: grid}"]
    wanted = load_space("add_vs_add_prod", "smoke", [block, *smoke])
    found = run_sweep(wanted, RunOptions(home=tmp_path), quiet())
    assert found.mix("add").runs == 2
    sweep = lifecycle.load(Home(tmp_path), Home(tmp_path).sweep_ids()[0])
    (tuning,) = sweep.tunings
    assert len(tuning.trials) == 3
    assert all(len(trial.runs) == 2 for trial in tuning.trials)
    entries = lifecycle.recall(Home(tmp_path).sweep(sweep.id)).ended
    configs = [sweep.spec.config(entry.request) for entry in entries]
    assert {run.settings.training.learning_rate for run in configs} == set(tuning.best.settings.values())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ctrl_c_while_tuning_keeps_the_trials_that_ended(tmp_path: Path) -> None:
    block = (
        "tune={settings: {training: {learning_rate: {from: 1.0e-3, to: 3.0e-2, scale: log}}}, trials: 8, seeds: 1, "
        "sizes: [4, 8]}"
    )
    smoke = (block, "sizes=[4, 8]", "seeds=1", "mixes=[add]", "search={method: grid}", "settings.training.steps=200")
    command = [sys.executable, "-m", "orchestrator", "run", "add_vs_add_prod", "--profile", "smoke"]
    command += ["--home", str(tmp_path), *(word for each in smoke for word in ("--set", each))]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert driver.stdout is not None
    said = []
    for line in driver.stdout:
        said.append(line)
        if "steps to learn" in line:
            break
    first = said[-1]
    assert "steps to learn" in first, "".join(said)
    driver.send_signal(signal.SIGINT)
    rest = driver.stdout.read()
    assert driver.wait(120) == 130, rest
    [sweep_id] = Home(tmp_path).sweep_ids()
    assert (
        f"Stopped while tuning; what finished is kept. Continue with the same command and --resume {sweep_id}" in rest
    )
    assert "Traceback" not in rest
    before = re.findall(r"trial (\d+) of 8", first + rest)
    done = subprocess.run([*command, "--resume"], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    after = re.findall(r"trial (\d+) of 8", done.stdout)
    assert sorted(map(int, before + after)) == list(range(1, 9))
    assert 1 <= len(before) < 8

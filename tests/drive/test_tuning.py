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

from orchestrator.drive.sweep import RunOptions, run_sweep
from orchestrator.engine.study import Study
from orchestrator.engine.tuning_job import TuningJob, run_file
from orchestrator.engine.tuning_worker import TuningWorker
from orchestrator.errors import SweepError, UserError
from orchestrator.search.base import Request
from orchestrator.space.spaces import load_space
from orchestrator.space.spec import SweepSpec
from orchestrator.store import lifecycle
from orchestrator.store.files import Home
from orchestrator.tracking import store
from orchestrator.tuning.objective import TuningRun, objective
from tests.drive.sweeps import printed, quiet, spec
from trainables.base import Arm

HASTE = {"settings": {"haste": {"from": 0.1, "to": 30.0, "scale": "log"}}, "trials": 3, "sizes": [64, 96], "seeds": 2}
"""ADD alone is not learned at 64 or 96 units with the space's own haste of .2; with 1.4 to 6.5 it is, at both."""


def asked(**changes: object) -> SweepSpec:
    return spec(settings={"haste": 0.2}, tune={**HASTE, **changes})


def study(home: Path, **changes: object) -> Study:
    wanted = asked(**changes)
    return Study(wanted, wanted.baseline, (64, 96), Home(home), most=lambda size: 4)


def train(one: Study, job: TuningJob) -> list[tuple[int, TuningRun]]:
    worker = TuningWorker(TuningJob.from_config(json.loads(json.dumps(job.to_config()))))
    while not worker.done:
        worker.advance()
    for number, run in worker.ended:
        one.ended(number, run)
    return worker.ended


def job_of(one: Study) -> TuningJob:
    job = one.next_job(1)
    assert job is not None
    return job


def train_all(one: Study) -> Study:
    while (job := one.next_job(1)) is not None:
        train(one, job)
    return one


def with_hastes(home: Path, hastes: list[float]) -> Study:
    """A study that ended, whose trials after the first have these values whatever Optuna would suggest."""
    one = study(home)
    for _ in range(2):
        train(one, job_of(one))
    for number, haste in enumerate(hastes, 1):
        (one.directory / f"trial-{number:04d}.json").write_text(json.dumps({"values": {"haste": haste}}))
    return train_all(study(home))


def test_the_settings_as_written_come_first_and_run_everything(tmp_path: Path) -> None:
    one = study(tmp_path)
    jobs = [one.next_job(2), one.next_job(2)]
    assert all(job is not None for job in jobs)
    assert one.next_job(2) is None  # Nobody else begins before they are known.
    trained = [train(one, job) for job in jobs if job is not None]
    assert [(n, run.size, run.seed) for runs in trained for n, run in runs] == [
        (0, size, 1_000_000 + k) for size in (64, 96) for k in (0, 1)
    ]
    assert one.trials[0].values == {"haste": 0.2}
    assert one.trials[0].score == objective(one.trials[0].runs, 2.0)
    # Their runs are those of a sweep that is not tuned: the same key, so the same file.
    plain = spec(settings={"haste": 0.2})
    key = plain.make_family().key(plain.config(Request("add", 64, 1_000_000)))
    assert run_file(Home(tmp_path), one.key, key).is_file()


def test_values_outside_the_ranges_are_still_those_to_beat(tmp_path: Path) -> None:
    one = train_all(study(tmp_path, settings={"haste": {"from": 1.5, "to": 6.0}}))
    assert one.trials[0].values == {"haste": 0.2}
    assert all(1.5 <= trial.values["haste"] <= 6 for trial in one.trials[1:])
    best = one.result().best
    assert 1.5 <= best.settings["haste"] <= 6
    assert best.base_size == pytest.approx((64 * 96) ** 0.5)


def test_trials_of_one_wave_share_a_stack(tmp_path: Path) -> None:
    one = study(tmp_path, trials=5)
    for _ in range(2):
        train(one, job_of(one))
    job = job_of(one)
    assert [(number, seed) for number, _, seed in job.runs] == [(1, 1_000_000), (2, 1_000_000)]
    assert job.runs[0][1]["settings"] == one.trials[1].values


def test_what_finished_is_kept_when_a_driver_is_killed(tmp_path: Path) -> None:
    first = study(tmp_path)
    train(first, job_of(first))
    lost = job_of(first)
    worker = TuningWorker(lost)
    while not worker.done:
        worker.advance()  # It finished, and nobody heard of it.
    again = study(tmp_path)
    assert [len(trial.runs) for trial in again.trials] == [2]
    with again.driving():
        assert [len(trial.runs) for trial in again.trials] == [4]
        assert again.trials[0].runs[2:] == tuple(run for _, run in worker.ended)
        before = again.trials
        again.ended(0, worker.ended[0][1])
        assert again.trials == before
        train_all(again)
    assert again.done
    assert study(tmp_path).result() == again.result()
    assert TuningWorker(lost).ended == worker.ended


def test_a_study_is_shared_by_those_who_ask_the_same(tmp_path: Path) -> None:
    key = study(tmp_path).key
    assert study(tmp_path, trials=9).key == key
    for change in ({"penalty": 3.0}, {"seeds": 1}, {"seed": 7_000_000}, {"size_power": 0.5}):
        assert study(tmp_path, **change).key != key
    wanted = asked()

    def other(asks: SweepSpec, mix: Arm, sizes: tuple[int, int]) -> str:
        return Study(asks, mix, sizes, Home(tmp_path), most=lambda size: 1).key

    hasty = wanted.model_copy(update={"settings": replace(wanted.settings, haste=0.3)})
    assert other(wanted, wanted.mixes[1], (64, 96)) != key
    assert other(wanted, wanted.baseline, (16, 64)) != key
    assert other(hasty, wanted.baseline, (64, 96)) != key
    elsewhere = wanted.model_copy(update={"seed": 5, "seeds": 1, "sizes": (8, 16), "name": "other"})
    assert other(elsewhere, wanted.baseline, (64, 96)) == key


def test_more_trials_continue_a_study_and_fewer_look_at_the_first_ones_alone(tmp_path: Path) -> None:
    three = train_all(study(tmp_path))
    assert len(three.trials) == 3
    five = study(tmp_path, trials=5)
    assert not five.done
    assert [trial.values for trial in train_all(five).trials[:3]] == [trial.values for trial in three.trials]
    assert len(five.trials) == 5
    assert study(tmp_path).result() == three.result()


def test_what_is_not_better_leaves_the_settings_as_written(tmp_path: Path) -> None:
    one = with_hastes(tmp_path, [0.15, 25.0])
    found = one.result()
    assert found.best.settings == {}
    assert [trial.values["haste"] for trial in found.trials] == [0.2, 0.15, 25.0]
    assert [len(trial.runs) for trial in found.trials] == [4, 1, 1]
    better = with_hastes(tmp_path / "other", [0.15, 3.0]).result()
    assert better.best.settings == {"haste": 3.0}
    assert [len(trial.runs) for trial in better.trials] == [4, 1, 4]


def test_one_process_tunes_at_a_time(tmp_path: Path) -> None:
    said = "being tuned in the same way by another process"
    with study(tmp_path).driving(), pytest.raises(UserError, match=said), study(tmp_path).driving():
        pass


def test_a_damaged_trial_is_named(tmp_path: Path) -> None:
    one = study(tmp_path)
    one.next_job(1)
    (one.directory / "trial-0000.json").write_text("{")
    with pytest.raises(SweepError, match=r"trial-0000\.json does not hold a readable trial"):
        study(tmp_path)


def test_a_study_that_has_not_ended_has_no_result(tmp_path: Path) -> None:
    with pytest.raises(SweepError, match="the tuning of add has not ended"):
        study(tmp_path).result()


def test_a_sweep_is_tuned_without_ray_and_another_one_reuses_it(tmp_path: Path) -> None:
    options = RunOptions(home=tmp_path, local_debug=True)
    wanted = asked(sizes="auto", trials=6, seeds=4)
    console = quiet()
    found = run_sweep(wanted, options, console)
    said = printed(console)
    # With the space's own haste no size learns, so that the largest ones are tuned at.
    assert "tuning: a first estimate of each transition" in said
    assert "tuning add at units 64 and 96: up to 6 trials" in said
    assert "tuning add, trial 1 of 6: 0 of 8 runs learned (haste 0.2)" in said
    assert re.search(r"tuned add: haste [\d.]+, \d of 8 runs learned \(0 of 8 runs learned as written; better", said)
    sweep = lifecycle.load(Home(tmp_path), Home(tmp_path).sweep_ids()[0])
    haste = sweep.spec.tuned["add"].settings["haste"]
    assert found.tuned[0] == f"add: tuned: haste {haste:.3g}"
    assert found.tuned[0] in said
    assert [tuning.mix for tuning in sweep.tunings] == ["add", "add+prod"]
    assert all(len(trial.runs) in (2, 4, 8) for tuning in sweep.tunings for trial in tuning.trials)
    assert wanted.differences(sweep.spec) == {}
    client = MlflowClient(store.choose(tmp_path).uri)
    experiments = [each.experiment_id for each in client.search_experiments()]
    recorded = client.search_runs(experiments, "tags.kind = 'tuning'")
    params = {run.data.tags["mix"]: run.data.params for run in recorded}
    assert params["add"]["tuned.haste"] == str(haste)
    assert params["add"]["found"] == "better settings"
    history = client.get_metric_history(recorded[0].info.run_id, "learned")
    assert [point.step for point in history] == [0, 1, 2, 3, 4, 5]
    runs = client.search_runs(experiments, "tags.kind = 'run'")
    assert str(haste) in {run.data.params["haste"] for run in runs}
    again = quiet()
    assert run_sweep(wanted.model_copy(update={"seed": 20}), options, again).tuned == found.tuned
    assert "first estimate" not in printed(again)
    assert "trial 1 of 6" not in printed(again)


def test_a_sweep_says_that_nothing_better_was_found(tmp_path: Path) -> None:
    # The best haste there is: learned at 64 units and, as with any other, not at 32.
    wanted = spec(mixes=["add"], tune={**HASTE, "sizes": [32, 64]}, settings={"haste": 3.0})
    console = quiet()
    found = run_sweep(wanted, RunOptions(home=tmp_path, local_debug=True), console)
    nothing = "found nothing better than the settings as written"
    assert f"tuning add: {nothing} by more than luck" in printed(console)
    assert found.tuned == (f"add: {nothing}",)
    untuned = run_sweep(
        wanted.model_copy(update={"tune": None}), RunOptions(home=tmp_path / "plain", local_debug=True), quiet()
    )
    assert found.mixes == untuned.mixes
    client = MlflowClient(store.choose(tmp_path).uri)
    experiments = [each.experiment_id for each in client.search_experiments()]
    (recorded,) = client.search_runs(experiments, "tags.kind = 'tuning'")
    assert recorded.data.params["found"] == nothing
    assert nothing in recorded.data.tags["mlflow.note.content"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_optuna_tunes_under_ray_and_a_second_sweep_reuses_it(tmp_path: Path) -> None:
    wanted = asked(trials=4)
    console, again = quiet(), quiet()
    found = run_sweep(wanted, RunOptions(home=tmp_path), console)
    said = printed(console)
    tunings = lifecycle.load(Home(tmp_path), Home(tmp_path).sweep_ids()[0]).tunings
    assert len(re.findall(r"tuning \S+, trial \d of 4: ", said)) == sum(len(each.trials) for each in tunings)
    trials = tunings[0].trials
    assert trials[0].values == {"haste": 0.2}
    assert len(trials[0].runs) == 4
    assert len({trial.values["haste"] for trial in trials}) == 4
    assert found.tuned[0].startswith(("add: tuned: haste ", "add: found nothing better"))
    # Where all is tuned, nothing is trained for it again, with Ray or without.
    run_sweep(wanted.model_copy(update={"seed": 20}), RunOptions(home=tmp_path, local_debug=True), again)
    assert "tuning add, trial" not in printed(again)
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
    assert len(tuning.trials[0].runs) == 2
    entries = lifecycle.recall(Home(tmp_path).sweep(sweep.id)).ended
    configs = [sweep.spec.config(entry.request) for entry in entries]
    rate = tuning.best.settings.get("training.learning_rate", 1e-2)
    assert {run.settings.training.learning_rate for run in configs} == {rate}


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
        if "runs learned" in line:
            break
    first = said[-1]
    assert "runs learned" in first, "".join(said)
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

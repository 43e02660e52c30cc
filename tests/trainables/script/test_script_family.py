"""Runs of a script: their keys, their curves, and what a kill loses."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.search.base import Request
from orchestrator.space.differences import differences
from orchestrator.space.spaces import load_space
from orchestrator.space.spec import SweepSpec
from tests.training_scripts import GOOD, script_spec, with_lines, written_space
from tests.waiting import wait_for
from trainables.base import Outcome, Report, RunConfig, Status
from trainables.contract.report_validator import BrokenFamilyError, ReportValidator
from trainables.script.family import ScriptFamily
from trainables.script.learner import ScriptError, ScriptLearner


@pytest.mark.parametrize(("floor", "is_said"), [(None, True), (0.1, False), (0.0, False)])
def test_a_missing_floor_is_said(floor: float | None, is_said: bool, tmp_path: Path) -> None:
    family = script_spec(tmp_path, floor=floor).make_family()
    warnings = [warning for warning in family.warnings([16]) if "`floor`" in warning]
    assert [warning.partition(", so ")[0] for warning in warnings] == [
        "The search space does not give `floor`, the accuracy of the best constant answer"
    ] * is_said


def run_of(spec: SweepSpec, size: int = 16, seed: int = 0, mix: str = "add") -> tuple[ScriptFamily, RunConfig]:
    family = spec.make_family()
    assert isinstance(family, ScriptFamily)
    return family, spec.config(Request(mix, size, seed))


def learner_of(spec: SweepSpec, work: Path, **run: Any) -> ScriptLearner:
    family, config = run_of(spec, **run)
    learner = family.learner([config], device="cpu", cache=work)
    assert isinstance(learner, ScriptLearner)
    learner.work_in(work)
    return learner


def reports_of(learner: ScriptLearner) -> Iterator[Report]:
    validator = ReportValidator(learner._family, [learner._run])
    while True:
        [report] = validator.check(learner.advance())
        yield report
        if report.outcome is not None:
            return


def outcome_of(spec: SweepSpec, work: Path, **run: Any) -> Outcome:
    with closing(learner_of(spec, work, **run)) as learner:
        *_, last = reports_of(learner)
    assert last.outcome is not None
    return last.outcome


def same(outcome: Outcome) -> Any:
    """Return an outcome without its seconds."""
    return replace(outcome, measures={name: one for name, one in outcome.measures.items() if name != "seconds"})


def test_a_run_has_its_curve_its_score_and_its_output(tmp_path: Path) -> None:
    with closing(learner_of(script_spec(tmp_path), tmp_path / "work", mix="add+prod")) as learner:
        *points, last = reports_of(learner)
    assert [point.evaluation.step for point in points if point.evaluation] == [2, 4, 6]
    outcome = last.outcome
    assert outcome is not None
    assert outcome.status is Status.FINISHED
    assert outcome.accuracy == {"add": outcome.curve[-1].accuracy["add"], "prod": outcome.curve[-1].accuracy["prod"]}
    assert outcome.floor == {"add": 0.1, "prod": 0.1}
    assert outcome.measures["parameters"] == 160
    assert outcome.measures["seconds"] > 0
    assert last.output.count('"iter"') == 3


def test_a_key_covers_what_changes_results_and_nothing_else(tmp_path: Path) -> None:
    def key(folder: str = "a", code: str = GOOD, **changes: Any) -> str:
        family, run = run_of(script_spec(tmp_path / folder, code, **changes))
        return family.key(run)

    first = key()
    assert key("moved") == first
    assert key(code=GOOD + "\n# a comment\n") == first
    alike: list[dict[str, Any]] = [{"resume": []}, {"silent_s": 9.0}, {"seeded": False}, {"stops_early": True}]
    assert {key(script=change) for change in alike} == {first}
    others = [
        key(code=GOOD + "\npass\n"),
        key(settings={"steps": 8}),
        key(settings={"pace": 1}),
        key(settings={"more": "x"}),
        key(floor=0.2),
        key(script={"environment": {"A": "b"}}),
        key(script={"metrics": {"step": "iter", "accuracy": {"add": "acc_add", "prod": "acc_prod"}}}),
        key(script={"command": ["python", "train.py"]}),
        key(script={"config": {"a": 1}}),
    ]
    assert len({first, *others}) == len(others) + 1


def test_settings_of_any_names_survive_pickle_and_files(tmp_path: Path) -> None:
    spec = script_spec(tmp_path, settings={"steps": 6, "lr": 1e-5, "name": "a b", "fast": True})
    assert pickle.loads(pickle.dumps(spec.settings)) == spec.settings
    again = script_spec(tmp_path, settings={"fast": True, "name": "a b", "lr": 1e-5, "steps": 6})
    assert again.settings == spec.settings
    assert SweepSpec.model_validate(spec.to_dict()) == spec
    assert differences(spec, again) == {}
    assert set(spec.family_class.tunable) == {"pace", "lr"}


def test_a_script_that_takes_its_settings_from_the_environment_and_a_file(tmp_path: Path) -> None:
    code = """
    import json, os, sys
    config = json.load(open(sys.argv[1]))
    assert config["model"] == {"width": 16, "lr": 0.001}, config
    assert json.loads(os.environ["SWEEP_TASKS"]) == {"add": 0.75, "prod": 0.25}
    assert os.environ["OWN"] == "seed-0" and os.environ["SWEEP_LR"] == "0.001"
    with open(os.environ["SWEEP_OUT"] + "/metrics.jsonl", "w") as file:
        for step in (1, 2, 3):
            file.write(json.dumps({"s": step, "a": step / 4}) + "\\n")
        file.write('{"s": 6, "a": 1.0}')
    print("done")
    """.replace("\n    ", "\n")
    script = {
        "command": ["python", "train.py", "{config}"],
        "metrics": {"step": "s", "accuracy": "a"},
        "file": "{out}/metrics.jsonl",
        "config": {"model": {"width": "{size}", "lr": "{lr}"}},
        "environment": {"OWN": "seed-{seed}"},
        "resume": None,
        "parameters": None,
    }
    spec = script_spec(tmp_path, code, script=script, mixes=["add:3+prod"], settings={"lr": 1e-3})
    outcome = outcome_of(spec, tmp_path / "work", mix="add:3+prod:1")
    assert [(point.step, point.accuracy["add"]) for point in outcome.curve] == [(1, 0.25), (2, 0.5), (3, 0.75), (6, 1)]
    assert outcome.accuracy == {"add": 1.0, "prod": 1.0}


@pytest.mark.parametrize("at", [2, 4, 6])
def test_a_killed_worker_loses_nothing(at: int, tmp_path: Path) -> None:
    """The learner is dropped like its process, without being closed; the next one has only the directory."""
    spec = script_spec(tmp_path / "space", settings={"steps": 8, "pace": 0.02})
    expected = outcome_of(spec, tmp_path / "undisturbed")
    left = learner_of(spec, tmp_path / "work")
    for report in reports_of(left):
        if report.evaluation is not None and report.evaluation.step >= at:
            break
    assert left.process is not None
    if at < 6:
        wait_for(lambda: left.process.ended() is None and left.process.process, within_s=10)  # type: ignore[union-attr]
        with suppress(ProcessLookupError):  # On a slow machine, it may have ended by itself.
            os.killpg(left.process.process or 0, signal.SIGKILL)
    left.process.stop()
    outcome = outcome_of(spec, tmp_path / "work")
    assert same(outcome) == same(expected)


def test_a_killed_script_is_started_again_and_continues(tmp_path: Path) -> None:
    spec = script_spec(tmp_path / "space", settings={"steps": 12, "pace": 0.05})
    expected = outcome_of(spec, tmp_path / "undisturbed")
    killed = 0
    with closing(learner_of(spec, tmp_path / "work")) as learner:
        for report in reports_of(learner):
            process = learner.process
            if report.evaluation is not None and report.evaluation.step in (4, 8) and process is not None:
                wait_for(lambda process=process: process.ended() or process.process, within_s=10)  # type: ignore[misc]
                os.killpg(process.process or 0, signal.SIGKILL)
                killed += 1
    assert killed == 2
    assert report.outcome is not None
    assert same(report.outcome) == same(expected)
    assert report.output.count("resumed at") == 2


def test_a_script_without_resume_starts_again(tmp_path: Path) -> None:
    spec = script_spec(tmp_path / "space", script={"resume": None}, settings={"steps": 8, "pace": 0.02})
    left = learner_of(spec, tmp_path / "work")
    next(reports_of(left))
    assert left.process is not None
    left.process.stop()
    with closing(learner_of(spec, tmp_path / "work")) as learner:
        *_, last = reports_of(learner)
    assert last.outcome is not None
    assert [point.step for point in last.outcome.curve] == [2, 4, 6, 8]
    assert "resumed" not in last.output


def test_a_script_that_is_always_killed_fails(tmp_path: Path) -> None:
    spec = script_spec(tmp_path, with_lines("os.kill(os.getpid(), 9)"))
    with closing(learner_of(spec, tmp_path / "work")) as learner, pytest.raises(ScriptError, match="killed 3 times"):
        list(reports_of(learner))


def test_a_loss_that_is_not_finite_is_data(tmp_path: Path) -> None:
    code = with_lines("if step == 4: report(4, val_loss=float('nan')); time.sleep(60)", at="STEP")
    outcome = outcome_of(script_spec(tmp_path, code), tmp_path / "work")
    assert (outcome.status, outcome.steps, outcome.accuracy) == (Status.DIVERGED, 4, {"add": 0.1})
    assert [point.step for point in outcome.curve] == [2]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("lines", ["os.mkfifo({path})", "os.symlink('/dev/zero', {path})", "os.mkdir({path})"])
def test_a_file_of_metrics_that_is_none_ends_the_run(lines: str, tmp_path: Path) -> None:
    """Reading a pipe waits for its writer, which no limit of time would end; a device never ends."""
    path = "Path(given.out, 'metrics.jsonl')"
    code = with_lines(f"{lines.format(path=path)}\ntime.sleep(60)")
    spec = script_spec(tmp_path, code, script={"file": "{out}/metrics.jsonl"})
    with pytest.raises(BrokenFamilyError, match=r"metrics\.jsonl, its file of metrics, is not a plain file"):
        outcome_of(spec, tmp_path / "work")


def test_other_code_than_when_the_sweep_began_is_refused(tmp_path: Path) -> None:
    spec = script_spec(tmp_path)
    (tmp_path / "train.py").write_text(GOOD + "\nprint('changed')\n")
    with pytest.raises(BrokenFamilyError, match=r"has other code than when the sweep began: train\.py in"):
        outcome_of(spec, tmp_path / "work")
    (tmp_path / "train.py").unlink()
    with pytest.raises(BrokenFamilyError, match="No such file"):
        outcome_of(spec, tmp_path / "other")


def test_what_others_left_in_a_runs_directory_is_not_believed(tmp_path: Path) -> None:
    spec = script_spec(tmp_path / "space")
    expected = outcome_of(spec, tmp_path / "undisturbed")
    work = tmp_path / "work" / "sweep"
    for content in ('[2, 0.5, {"add": 0.9}, 1.0]\nnonsense\n', "[1e3]", '[6, 1, {"add": 5.0}, NaN]\n', "\0\xff"):
        shutil.rmtree(tmp_path / "work", ignore_errors=True)
        work.mkdir(parents=True)
        (work / "points.jsonl").write_text(content)
        assert same(outcome_of(spec, tmp_path / "work")) == same(expected)
    shutil.rmtree(tmp_path / "work")
    work.mkdir(parents=True)
    (tmp_path / "elsewhere").write_text("mine")
    (work / "points.jsonl").symlink_to(tmp_path / "elsewhere")
    assert same(outcome_of(spec, tmp_path / "work")) == same(expected)
    assert (tmp_path / "elsewhere").read_text() == "mine"


def test_a_directory_is_relative_to_its_file(tmp_path: Path) -> None:
    path = written_space(tmp_path / "a" / "spaces", script={"directory": "../code"})
    (tmp_path / "a" / "code").mkdir()
    shutil.move(tmp_path / "a" / "spaces" / "train.py", tmp_path / "a" / "code")
    (tmp_path / "b.yaml").write_text("like: a/spaces/space.yaml\nseeds: 2\n")
    for name in (path, tmp_path / "b.yaml"):
        assert load_space(str(name)).script.directory == str(tmp_path / "a" / "code")

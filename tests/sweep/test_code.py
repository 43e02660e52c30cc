"""The code that trained a run is part of what was trained: other code is refused, or said."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

import pytest

import orchestrator as o
from orchestrator.history.other_code import check_resumed
from orchestrator.history.sweeps import Sweep, create_sweep, load_sweep
from orchestrator.home.directories import Home
from orchestrator.home.run_files import read_origin
from orchestrator.home.run_store import RunStore
from orchestrator.home.seals import seal
from orchestrator.space.spaces import load_space
from orchestrator.sweep.invocation import Invocation
from orchestrator.sweep.run_options import RunOptions
from orchestrator.sweep.several_sweeps import run_sweep
from orchestrator.system.errors import SweepError
from orchestrator.system.files import remove_tree
from tests.cli.program import Program, process
from tests.cli.program import line as command_line
from tests.sweep.boards import PROBE, accuracies, train, write
from tests.sweep.sweeps import ended, quiet, run_here, spec
from tests.training_scripts import GOOD, written_space
from trainables.base import Outcome, Status

pytestmark = pytest.mark.usefixtures("undrawn")


def test_each_run_keeps_the_hash_of_its_code(run: Program, workplace: Path, module: str) -> None:
    run(*train(write(workplace, module))).succeeded()
    origins = [read_origin(path) for path in Home(workplace / "results").runs.iterdir()]
    assert len(origins) == 3
    [source] = {origin.source for origin in origins if origin is not None}
    assert re.fullmatch(r"[0-9a-f]{16}", source)


@pytest.mark.slow
@pytest.mark.parametrize("edited", ["train", "helper"])
def test_edited_code_is_refused_with_two_ways_on(run: Program, workplace: Path, module: str, edited: str) -> None:
    """The code is edited in the module itself, or in a module of its folder that it imports."""
    helper = workplace / f"helper_{module}.py"
    helper.write_text("SCORE = 0.9\n")
    score, imports = f"helper_{module}.SCORE", f"import helper_{module}"
    space = write(workplace, module, score=score, imports=imports)
    run(*train(space)).succeeded()
    if edited == "helper":
        helper.write_text("SCORE = 0.7\n")
    else:
        write(workplace, module, score="0.7", imports=imports)
    message = run(*train(space)).refused()
    assert len(message.strip().splitlines()) == 1
    assert "has changed, and 3 finished runs" in message
    for way in ("version", "--fresh", "--set code=warn"):
        assert way in message
    assert len(Home(workplace / "results").sweep_ids()) == 1  # Nothing started.

    warned = run(*train(space, "--set", "code=warn")).succeeded()
    assert "3 finished runs" in warned
    assert accuracies() == {0.9}
    run(*train(space, "--fresh")).succeeded()
    assert accuracies() == {0.7}
    write(workplace, module, score="0.7" if edited == "train" else score, version=2, imports=imports)
    run(*train(space)).succeeded()
    assert accuracies() == {0.7}


def test_reused_runs_are_probed_again_with_changed_code(run: Program, workplace: Path, module: str) -> None:
    """A user corrects a probe, and forgets its version."""
    space = write(workplace, module)
    with space.open("a") as file:
        file.write(f"probes: ['probe_{module}:Mean']\n")
    for value, comment in (("1", ""), ("1", "# Why.\n"), ("2", "")):
        (workplace / f"probe_{module}.py").write_text(PROBE.format(value=value) + comment)
        output = run(*train(space)).succeeded()
        assert ("Probed 3 earlier runs" in output) is (value == "2")
        assert set(o.load(home="results").runs["probe/mean/value"]) == {float(value)}
    assert (
        "3 already done" in run("probe", Home(workplace / "results").sweep_ids()[0], f"probe_{module}:Mean").succeeded()
    )


@pytest.mark.parametrize("is_listed", [False, True])
def test_changed_programs_next_to_a_script_are_said_unless_its_code_is_listed(
    is_listed: bool, run: Program, workplace: Path
) -> None:
    """The script computes the path of its package, so the package does not count as its code."""
    code = f"import sys, pathlib; sys.path.append(str(pathlib.Path(__file__).parents[0] / {'lib'!r}.lower()))\n{GOOD}"
    space = written_space(workplace / "project", code, script={"code": ["train.py"] if is_listed else None})
    package = workplace / "project" / "lib" / "package.py"
    package.parent.mkdir()
    package.write_text("SCALE = 1\n")
    run(*train(space)).succeeded()
    assert "have changed since" not in run(*train(space)).succeeded()
    package.write_text("SCALE = 2\n")
    warning = (
        f"programs or settings in {package.parents[1]} that are not known to belong to the script, such as "
        "lib/package.py, have changed since 4 finished runs"
    )
    assert (warning in run(*train(space)).succeeded()) is not is_listed
    assert (warning in run(*train(space, "--resume")).succeeded()) is not is_listed


@pytest.mark.slow
def test_a_script_under_ray_imports_from_its_own_environment(run: Program, workplace: Path) -> None:
    """With the path of the workers, it would train with Orchestrator's torch instead of its own."""
    place = workplace / "path.txt"
    code = f"import os\nopen({str(place)!r}, 'w').write(str(os.environ.get('PYTHONPATH')))\n"
    space = written_space(workplace / "project", code + GOOD)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process(command_line("run", space, "--record=jsonl"), cwd=workplace, environment=environment).succeeded()
    assert place.read_text() == "None"


@pytest.mark.slow
def test_programs_next_to_a_script_that_change_during_its_sweep_are_said(
    run: Program, workplace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The first run writes the other program, whose name does not occur in the script."""
    code = f"import pathlib; pathlib.Path('OTHER.PY'.lower()).write_text('SCALE = 2')\n{GOOD}"
    space = written_space(workplace / "project", code, script={"code": None})
    (workplace / "project" / "other.py").write_text("SCALE = 1")
    run_sweep(load_space(str(space)), RunOptions(home=workplace / "results"), quiet())
    [sweep_id] = Home(workplace / "results").sweep_ids()
    assert (
        f"programs or settings in {workplace / 'project'} that are not known to belong to the script, such as "
        f"other.py, have changed during {sweep_id}; if the script runs them, its runs are of different code"
    ) in caplog.messages
    assert "since 4 finished runs of this sweep ended" in run(*train(space)).succeeded()
    run(*train(space, "--set", "seed=100")).succeeded()
    both = Home(workplace / "results").sweep_ids()
    newest, oldest = both[0], both[-1]
    assert "; their code for training differs." in run("compare", "--pooled", newest, oldest).succeeded()
    other = f"these sweeps trained different code of the project of the script in {workplace / 'project'}"
    assert other in run("compare", newest, oldest).err


@pytest.mark.slow
def test_runs_of_different_code_are_not_pooled(run: Program, workplace: Path, module: str) -> None:
    """The second sweep has other seeds, so none of its runs is refused."""
    space = write(workplace, module)
    run(*train(space, "--set", "code=warn")).succeeded()
    write(workplace, module, score="0.7")
    run(*train(space, "--set", "code=warn", "--set", "seed=100")).succeeded()
    both = Home(workplace / "results").sweep_ids()
    pooled = run("compare", "--pooled", *both).succeeded()
    assert "Pooled from 2 sweeps: 6 runs; their code for training differs." in pooled
    run(*train(space, "--set", "seed=200")).succeeded()
    newest = Home(workplace / "results").sweep_ids()[0]
    warning = f"warning: these sweeps trained different code of {module}:Board"
    compared = run("compare", *both)
    assert (compared.code, warning in compared.err, warning in run("compare", newest, both[0]).err) == (0, True, False)
    message = f"these sweeps cannot be pooled: the code of {module}:Board changed between their runs"
    assert message in run("compare", "--pooled", newest, both[1]).refused()
    assert "Pooled from 2 sweeps: 6 runs." in run("compare", "--pooled", newest, both[0]).succeeded()
    write(workplace, module, score="0.7", version=2)
    run(*train(space, "--set", "seed=300")).succeeded()
    words = ["compare", "--pooled", newest, Home(workplace / "results").sweep_ids()[0]]
    assert f"their runs are of version 1 and version 2 of {module}:Board" in run(*words).refused()


@pytest.mark.parametrize("change", ["code", "version"])
def test_a_command_that_reads_a_sweep_says_that_its_code_has_changed(
    change: str, run: Program, workplace: Path, module: str
) -> None:
    """The present code decides what ``status`` calls learned, and how many parameters a model has."""
    space = write(workplace, module)
    run(*train(space)).succeeded()
    assert "has changed since" not in run("status").succeeded()
    write(workplace, module, **({"score": "0.7"} if change == "code" else {"version": 2}))
    [sweep_id] = Home(workplace / "results").sweep_ids()
    warning = f"warning: the code of {module}:Board has changed since {sweep_id} started; what it computes from runs"
    for words in (["status"], ["status"], ["report"], ["explain"], ["export", sweep_id, "--output", "tables"]):
        ended = process(command_line(*words), cwd=workplace)
        assert (ended.code, ended.err.count(warning)) == (0, 1), ended.err


def test_a_resumed_sweep_has_no_numbers_of_an_earlier_probe(run: Program, workplace: Path, module: str) -> None:
    probe = workplace / f"probe_{module}.py"
    probe.write_text(PROBE.format(value="1"))
    named = f"probes: ['probe_{module}:Mean']\n"
    interrupted(workplace / "board.yaml", module, probes=named)
    probe.write_text(PROBE.format(value="2"))
    space = write(workplace, module)
    space.write_text(space.read_text() + named)
    assert "Probed 2 earlier runs" in run(*train(space, "--resume", "--set", "code=warn")).succeeded()
    assert list(o.load(home="results").runs["probe/mean/value"]) == [2.0] * 3


@pytest.mark.parametrize("later", ["run", "resume"])
def test_changed_code_of_this_project_is_said_in_one_line(
    later: str, run: Program, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user with a checkout corrects a task that they added, and forgets the version of its family."""
    sweep = train(Path("add_vs_add_prod"), "--profile=smoke")
    run(*sweep).succeeded()
    again = [*sweep, *(["--resume"] if later == "resume" else [])]
    assert "own code" not in run(*again).succeeded()
    for module in ("history.other_code", "engine.campaign"):
        monkeypatch.setattr(f"orchestrator.{module}.hash_of_training_code", lambda: "0123456789abcdef")
    [line] = [line for line in run(*again).succeeded().splitlines() if "own code" in line]
    assert "Orchestrator's own code for training has changed (another commit, or your edits) since 8 finished" in line
    run(*sweep, "--fresh").succeeded()


@pytest.mark.parametrize("change", ["comment", "empty lines"])
def test_a_comment_is_no_change(run: Program, workplace: Path, module: str, change: str) -> None:
    space = write(workplace, module)
    run(*train(space)).succeeded()
    file = workplace / f"{module}.py"
    text = file.read_text()
    file.write_text(text.replace("    floor", "    # Why.\n    floor") if change == "comment" else f"{text}\n\n\n")
    assert "Reused 3 runs" in run(*train(space)).succeeded()


def interrupted(space: Path, module: str, *, cause: str = "raise KeyboardInterrupt", probes: str = "") -> str:
    """Run a sweep that is interrupted at its third run. Return its id."""
    write(space.parent, module, first=f"if size == 8: {cause}")
    space.write_text(space.read_text() + probes)
    code = f"import orchestrator as o; o.run({str(space)!r}, engine='local', record='jsonl')"
    ended = process([sys.executable, "-c", code], cwd=space.parent)
    assert ended.code != 0
    [sweep_id] = Home(space.parent / "results").sweep_ids()
    return sweep_id


@pytest.mark.slow
@pytest.mark.parametrize("change", ["version", "train"])
def test_resume_refuses_other_code(run: Program, workplace: Path, module: str, change: str) -> None:
    space = write(workplace, module)
    sweep_id = interrupted(space, module)
    assert len(list(Home(workplace / "results").runs.iterdir())) == 2
    write(workplace, module, score="0.7", version=2 if change == "version" else 1)
    message = run(*train(space, "--resume", sweep_id)).refused()
    assert f"{sweep_id} cannot be resumed" in message
    if change == "version":
        assert "has version 2, but had 1 when it started" in message
        message = run(*train(space, "--resume", sweep_id, "--set", "code=warn")).refused()  # Keys differ in any case.
        assert "has version 2" in message
        run(*train(space)).succeeded()
        assert accuracies() == {0.7}
    else:
        assert "has changed" in message
        warned = run(*train(space, "--resume", sweep_id, "--set", "code=warn")).succeeded()
        assert "has changed since" in warned
        assert accuracies() == {0.7, 0.9}


@pytest.mark.slow
def test_failed_runs_are_trained_again_by_corrected_code(run: Program, workplace: Path, module: str) -> None:
    space = write(workplace, module, first="if size == 8: raise ValueError('no data')")
    run(*train(space)).succeeded()
    [sweep_id] = Home(workplace / "results").sweep_ids()
    write(workplace, module, score="0.7")
    assert "has changed" in run(*train(space, "--resume", sweep_id)).refused()
    warned = run(*train(space, "--resume", sweep_id, "--retry-failed")).succeeded()
    assert "its finished runs are kept, because of --retry-failed" in warned
    assert list(o.load().runs.sort_values("size")["accuracy"]) == [0.9, 0.9, 0.7]


def test_a_sweep_without_finished_runs_continues_with_corrected_code(
    run: Program, workplace: Path, module: str
) -> None:
    space = write(workplace, module, score="90")
    assert run(*train(space)).code == 1
    write(workplace, module)
    [sweep_id] = Home(workplace / "results").sweep_ids()
    run(*train(space, "--resume", sweep_id)).succeeded()
    assert (accuracies(), o.load().state) == ({0.9}, "finished")


def test_a_resumed_sweep_that_has_only_checkpoints_says_that_other_programs_changed(workplace: Path) -> None:
    spec = load_space(str(written_space(workplace / "project", script={"code": None})))
    other = workplace / "project" / "other.py"
    other.write_text("SCALE = 1")
    sweep = create_sweep(spec, Home(workplace / "results"))
    (sweep.files.checkpoints / "stack.1").mkdir(parents=True)
    assert check_resumed(load_sweep(sweep.files.home, sweep.id), retry_failed=False) == ""
    other.write_text("SCALE = 2")
    os.utime(other, (time.time() + 5, time.time() + 5))
    assert check_resumed(load_sweep(sweep.files.home, sweep.id), retry_failed=False) == (
        f"programs or settings in {workplace / 'project'} that are not known to belong to the script, such as "
        f"other.py, have changed since {sweep.id} began; its interrupted runs continue. If the script runs them, pass "
        "--fresh, and list them under `script: code`"
    )
    remove_tree(sweep.files.checkpoints)
    assert check_resumed(load_sweep(sweep.files.home, sweep.id), retry_failed=False) == ""


def test_extend_refuses_other_code(run: Program, workplace: Path, module: str) -> None:
    space = write(workplace, module)
    run(*train(space)).succeeded()
    write(workplace, module, score="0.7")
    [sweep_id] = Home(workplace / "results").sweep_ids()
    assert "has changed" in run(*train(space, "--extend", sweep_id, "--set", "seeds=2")).refused()


def test_a_home_without_hashes_is_continued(run: Program, workplace: Path, module: str) -> None:
    """Runs of earlier versions have no hash, so nothing is known about their code."""
    space = write(workplace, module)
    run(*train(space)).succeeded()
    for path in Home(workplace / "results").runs.glob("*/origin.json"):
        path.write_text(re.sub(r', "source": "\w+"', "", path.read_text()))
        (path.parent / "contents.json").unlink()
        seal(path.parent)
    write(workplace, module, score="0.7")
    assert "Reused 3 runs" in run(*train(space)).succeeded()


@pytest.mark.slow
def test_modules_of_the_same_name_are_found_by_folder(run: Program, workplace: Path, module: str) -> None:
    one, two = write(workplace / "one", module), write(workplace / "two", module, score="0.7")
    run(*train(one)).succeeded()
    message = run(*train(two)).refused()
    assert f"the code of {module}:Board in {two.parent} differs from the code in {one.parent}" in message
    run(*train(two, "--home", "other")).succeeded()
    assert accuracies("other") == {0.7}
    assert accuracies() == {0.9}
    run(*train(one, "--set", "seeds=2")).succeeded()  # Back in the first project.
    assert accuracies() == {0.9}


def test_modules_next_to_a_space_come_before_those_of_the_working_directory(workplace: Path, module: str) -> None:
    write(workplace, module)
    space = write(workplace / "two", module, score="0.7")
    ended = process([sys.executable, "-m", "orchestrator", *train(space)], cwd=workplace)
    ended.succeeded()
    assert accuracies() == {0.7}


def test_specifications_keep_the_code_of_their_folder(workplace: Path, module: str) -> None:
    one = load_space(str(write(workplace / "one", module)))
    two = load_space(str(write(workplace / "two", module, score="0.7")))
    assert one.source != two.source
    assert [spec.checked().folder for spec in (one, two, one)] == [
        str(workplace / name) for name in ("one", "two", "one")
    ]
    assert one.checked().source == one.source
    assert set(o.run(one, engine="local", quiet=True).runs["accuracy"]) == {0.9}
    write(workplace / "one", module, score="0.8")
    assert two.refreshed().source == two.source
    assert one.refreshed().source not in (one.source, two.source)


@pytest.mark.parametrize("code", ["refuse", "warn"])
def test_other_code_that_trains_at_the_same_time(code: str, tmp_path: Path) -> None:
    """Another sweep stores a run of this sweep after it was checked."""
    wanted = spec(sizes=[8, 16], code=code)

    def store(sweep: Sweep) -> None:
        for request in wanted.requests():
            config = wanted.config(request)
            scores = dict.fromkeys(config.mix.tasks, 0.5)
            other = RunStore(sweep.files.home, "other", source="f" * 16)
            other.put(wanted.make_family().key(config), Outcome(Status.FINISHED, 3, scores, scores), {})

    if code == "warn":
        run_here(wanted, tmp_path, invocation=Invocation(begun=store))
        assert {entry.trained_for for entry in ended(tmp_path)} == {"other"}
        return
    with pytest.raises(SweepError, match=r"was trained by other code of tests\.families:LogisticFamily, for other"):
        run_here(wanted, tmp_path, invocation=Invocation(begun=store))
    assert ended(tmp_path) == []


IN_WORKER = "'default_worker' in ' '.join(sys.orig_argv)"
WORKERS = [
    (f"version = 1 + ({IN_WORKER})", "has version 2, but the process that started the sweep has 1"),
    pytest.param(
        f"version = 1 / (not {IN_WORKER})",
        "cannot use the sweep: family: family .* ZeroDivisionError",
        marks=pytest.mark.night,
    ),
    pytest.param(f"name = str({IN_WORKER})", "computes different run keys than the process", marks=pytest.mark.night),
]
"""Lines of a class that differ between the driver and Ray's workers, as an edited file or another copy would."""


@pytest.mark.slow
@pytest.mark.parametrize(("line", "why"), WORKERS)
def test_a_worker_with_other_code_stops_the_sweep(workplace: Path, module: str, line: str, why: str) -> None:
    space = write(workplace, module, imports="import sys")
    file = workplace / f"{module}.py"
    file.write_text(file.read_text().replace("version = 1\n", f"{line}\n"))
    with pytest.raises(SweepError, match=why):
        o.run(space, quiet=True)
    assert o.load().state == "failed"
    assert len(o.load().runs) == 0


@pytest.mark.slow
def test_a_worker_with_other_code_of_a_probe_stops_the_sweep(workplace: Path, module: str) -> None:
    space = write(workplace, module)
    with space.open("a") as file:
        file.write(f"probes: ['probe_{module}:Mean']\n")
    probe = workplace / f"probe_{module}.py"
    probe.write_text(PROBE.format(value="1"))
    options = RunOptions(home=workplace / "results")
    invocation = Invocation(begun=lambda _: probe.write_text(PROBE.format(value="2")))
    with pytest.raises(SweepError, match=f"the code of the probes probe_{module}:Mean on .* differs from the process"):
        run_sweep(load_space(str(space)), options, quiet(), invocation)


@pytest.mark.slow
def test_a_file_that_changes_while_its_sweep_starts_stops_the_sweep(workplace: Path, module: str) -> None:
    space = write(workplace, module)
    file = workplace / f"{module}.py"
    changed = file.read_text().replace("0.9", "0.7")
    options = RunOptions(home=workplace / "results")
    invocation = Invocation(begun=lambda _: file.write_text(changed))
    with pytest.raises(SweepError, match="differs from the code in the process"):
        run_sweep(load_space(str(space)), options, quiet(), invocation)

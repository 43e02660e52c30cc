"""Sweeps of scripts: refused before they start, stopped by malformed scripts, and never started by reading a home."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import orchestrator as o
from orchestrator.home.directories import Home, SweepDirectory
from orchestrator.space import strict_yaml
from orchestrator.system.errors import SweepError, UserError
from tests.cli.program import Program
from tests.sweep.sweeps import ended, only_sweep, run_here
from tests.training_scripts import COMMAND, GOOD, script_spec, with_lines, written_space
from trainables.base import Outcome, Status
from trainables.contract.report_validator import BrokenFamilyError
from trainables.script.guard import started_at
from trainables.script.learner import ScriptLearner

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture(autouse=True)
def configuration(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("configuration")))


@pytest.mark.parametrize(
    ("changes", "place", "message"),
    [
        ({"script": {"command": [*COMMAND, "{sizes}"]}}, "script.command", "there is no placeholder {sizes}. Did you"),
        ({"script": {"command": [*COMMAND, "{"]}}, "script.command", "write a placeholder as {size}"),
        ({"script": {"command": []}}, "script.command", "must list a program"),
        ({"script": {"command": "python train.py"}}, "script.command", "must be a list"),
        ({"script": {"environment": {"A": "{x}"}}}, "script.environment.A", "there is no placeholder {x}"),
        ({"script": {"environment": {"A=": "x"}}}, "script.environment.A=", "is not the name of an environment"),
        ({"script": {"config": {"a": ["{config}"]}}}, "script.config", "there is no placeholder {config}"),
        ({"script": {"pattern": "("}}, "script.metrics", "specify either metrics: or pattern:"),
        ({"script": {"metrics": {"step": "iter"}}}, "script.metrics.accuracy", "must be a key"),
        ({"script": {"file": "metrics.jsonl"}}, "script.file", "must begin with {out}/"),
        ({"script": {"code": ["../train.py"]}}, "script.code", "must name files below the directory"),
        ({"script": {"comand": ["x"]}}, "script.comand", "Did you mean 'command'?"),
        ({"settings": {"size": 3}}, "settings.size", "is a placeholder of every script"),
        ({"settings": {"learning-rate": 3}}, "settings.learning-rate", "cannot be the name of a setting"),
        ({"settings": {"lr": [1]}}, "settings.lr", "must be a number, text, true or false"),
        ({"settings": {"steps": 0}}, "settings.steps", "at least 1"),
        ({"settings": {"steps": 10**308}}, "settings.steps", "at least 1 and at most 1000000000000000"),
        ({"mixes": ["add", "add+max"]}, "mixes[1]", "unknown task 'max'"),
        ({"script": {"tasks": ["add", "prod", "max"]}, "mixes": ["add", "add+max"]}, "script.metrics", "'max', but no"),
        ({"floor": 10}, "floor", "must be a share"),
        ({"family": "listops"}, "script", "specify either family: or script:"),
    ],
)
def test_a_mistake_is_refused_with_its_place(
    changes: dict[str, Any], place: str, message: str, run: Program, tmp_path: Path
) -> None:
    written_space(tmp_path, **changes)
    refused = run("run", "space.yaml", "--engine=local").refused()
    assert message in refused
    assert f", {place}:" in refused
    assert not (tmp_path / "results").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory to another user")
@pytest.mark.parametrize("part", ["", "sweeps"])
@pytest.mark.parametrize("owner", [65534, 0])
def test_a_script_does_not_write_where_others_could_lead_it_elsewhere(
    owner: int, part: str, run: Program, tmp_path: Path
) -> None:
    """Users who can write to the home can put links in place of the script's directories, which it opens by path."""
    written_space(tmp_path / "own")
    place = tmp_path / "home" / part
    place.mkdir(parents=True)
    os.chown(place, owner, owner)
    place.chmod(0o755 if owner else 0o777)
    words = ["run", tmp_path / "own" / "space.yaml", "--engine=local", "--record=jsonl", "--home", tmp_path / "home"]
    run("home", "trust", tmp_path / "home").succeeded()
    refused = run(*words).refused()
    assert f"{place} {'belongs to another user' if owner else 'can be written by other users'}" in refused
    assert not list((tmp_path / "home").glob("sweeps/*"))
    os.chown(place, 0, 0)
    place.chmod(0o755)
    run(*words).succeeded()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory to another group")
def test_a_script_does_not_write_in_a_home_that_a_team_could_exchange(run: Program, tmp_path: Path) -> None:
    """The home is private, but members of the team can put another in its place while the script runs."""
    written_space(tmp_path / "own")
    team = tmp_path / "team"
    team.mkdir()
    os.chown(team, 0, 65534)
    team.chmod(0o2775)
    words = ["run", tmp_path / "own" / "space.yaml", "--engine=local", "--record=jsonl", "--home", team / "results"]
    refused = run(*words).refused()
    assert (
        f"other users can write {team}, who could put another directory in the place of {team / 'results'}" in refused
    )
    os.chown(team, 65534, 65534)  # As root in a container sees the project of a user of the host.
    team.chmod(0o755)
    run(*words).succeeded()


def test_settings_need_steps(run: Program, tmp_path: Path) -> None:
    path = written_space(tmp_path)
    path.write_text(path.read_text().replace("steps: 6", "pase: 6"))
    assert "settings with `steps`" in run("plan", "space.yaml").refused()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ({"directory": "missing"}, "missing does not exist"),
        ({"directory": "train.py"}, "train.py is not a directory"),
        ({"command": ["pyhton", "train.py"]}, "the program pyhton was not found in PATH"),
        ({"command": ["./train.py"]}, "train.py is not a program that can be started"),
        ({"command": ["./missing"]}, "missing was not found"),
        ({"code": ["model.py"]}, "model.py cannot be read: No such file"),
    ],
)
def test_missing_files_are_refused_before_anything_starts(
    script: dict[str, Any], message: str, run: Program, tmp_path: Path
) -> None:
    written_space(tmp_path, script=script)
    for command in ("plan", "run"):
        assert message in run(command, "space.yaml").refused()
    assert not (tmp_path / "results").exists()


def test_a_sweep_of_a_script_has_an_answer_and_finds_its_runs_again(run: Program, tmp_path: Path) -> None:
    written_space(tmp_path)
    out = run("run", "space.yaml", "--engine=local").succeeded()
    assert "mix       width" in out
    stored = o.load("space", tmp_path / "results")
    assert set(stored.runs["status"]) == {"finished"}
    assert set(stored.runs["measure/parameters"]) == {80, 160}
    assert not only_sweep(tmp_path / "results").checkpoints.exists()
    assert "is the present code" not in run("explain", "--home", "results").succeeded()
    assert (
        run("run", "space.yaml", "--engine=local", "--set", "resources.retries=0").succeeded().count(", trained for")
        == 5
    )
    (tmp_path / "train.py").write_text(GOOD + "\nprint('more')\n")
    assert "trained for" not in run("run", "space.yaml", "--engine=local").succeeded()


def test_reading_a_home_neither_starts_nor_needs_the_script(run: Program, tmp_path: Path) -> None:
    written_space(tmp_path / "code", with_lines("Path('started').touch()"))
    run("run", "code/space.yaml", "--engine=local").succeeded()
    sweep = only_sweep(tmp_path / "results").id
    (tmp_path / "code" / "started").unlink()
    for removed in (False, True):
        if removed:
            shutil.rmtree(tmp_path / "code")
        for words in (
            ("sweeps",),
            ("status", sweep, "--runs"),
            ("explain",),
            ("report",),
            ("export", sweep, "--output", f"t{removed}"),
            ("sync",),
        ):
            run(*words).succeeded()
        key = o.load(sweep, tmp_path / "results").runs["key"].iloc[0]
        run("logs", key).succeeded()
        assert not (tmp_path / "code" / "started").exists()
    run("rm", sweep, "--yes").succeeded()


def test_an_interrupted_sweep_can_be_inspected_and_archived(
    run: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Archives have no checkpoints, so nothing that a script could load."""
    written_space(tmp_path)
    run("run", "space.yaml", "--engine=local").succeeded()
    run("run", "space.yaml", "--engine=local", "--max-time=8s", "--set", "settings.pace=5")
    assert list((tmp_path / "results").rglob("work/*"))
    assert "work" not in run("doctor").out
    run("home", "export", "home.tar").succeeded()
    run("home", "import", "home.tar", "--home", "other").succeeded()
    assert list((tmp_path / "other").rglob("output.txt"))
    assert not list((tmp_path / "other").rglob("work"))
    # An archive of another user may have such files, and may claim to continue a sweep of this user.
    monkeypatch.setattr("orchestrator.history.export_archive.WORK", "none")
    run("home", "export", "other.tar").succeeded()
    monkeypatch.setattr("orchestrator.history.export_archive.WORK", "work")
    run("home", "import", "other.tar", "--home", "third").succeeded()
    assert not list((tmp_path / "third").rglob("work"))
    assert run("status", "--home", "other").succeeded()
    newest = Home(tmp_path / "results").sweep_ids()[0]
    again = ["run", "space.yaml", "--engine=local", "--set", "settings.pace=5", "--resume", newest, "--home", "third"]
    assert "it came with an archive" in run(*again).refused()


def test_a_home_of_somebody_else_starts_nothing(
    run: Program, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    written_space(tmp_path, with_lines("Path('started').touch()"), settings={"steps": 40})
    run("run", "space.yaml", "--engine=local", "--max-time=4s", "--set", "settings.pace=0.2")
    assert (tmp_path / "started").exists()
    (tmp_path / "started").unlink()
    directory = only_sweep(tmp_path / "results")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("of another user")))
    assert "you have never run this script" in run("run", directory.spec, "--engine=local").refused()
    refused = run(
        "run", "space.yaml", "--engine=local", "--set", "settings.pace=0.2", "--resume", directory.id
    ).refused()
    assert "not in your list of homes" in refused
    with pytest.raises(UserError, match="you have never run this script"):
        o.run(o.load(directory.id, tmp_path / "results").spec, home=tmp_path / "results", engine="local")
    assert not (tmp_path / "started").exists()


def swept_by_another_user(
    run: Program, tmp_path: Path, configurations: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> SweepDirectory:
    """Run a sweep of a script that creates the file ``started``, remove that file, and become another user."""
    written_space(tmp_path, with_lines("Path('started').touch()"))
    run("run", "space.yaml", "--engine=local").succeeded()
    (tmp_path / "started").unlink()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(configurations.mktemp("of another user")))
    return only_sweep(tmp_path / "results")


def swept_in(run: Program, place: Path, **script: Any) -> SweepDirectory:
    """Run a sweep of a script in ``place / "code"``, whose home is next to it, and return the sweep."""
    space = written_space(place / "code", script=script, sizes=[8])
    run("run", space, *HERE, "--home", place / "results").succeeded()
    return only_sweep(place / "results")


def refusals(run: Program, place: Path, sweep: SweepDirectory) -> list[str]:
    """Return the messages of the two ways in which a script is started without a space that this user wrote now."""
    home = ("--home", place / "results")
    resumed = run("run", place / "code" / "space.yaml", *HERE, *home, "--resume", sweep.id).refused()
    with pytest.raises(UserError) as ended:
        o.run(o.load(sweep.id, place / "results").spec, home=place / "other", engine="local", record="jsonl")
    return [resumed, run("run", sweep.spec, *HERE, *home).refused(), str(ended.value)]


HERE = ("--engine=local", "--record=jsonl")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory to another user")
@pytest.mark.parametrize("kind", ["owner", "mode", "above"])
def test_a_script_in_a_directory_that_others_can_exchange_is_not_started_again(
    kind: str, run: Program, tmp_path: Path
) -> None:
    """They could add a module that the unchanged script imports, as after removing a directory in ``/tmp``."""
    place = tmp_path / "shared"
    sweep = swept_in(run, place)
    code = place / "code"
    if kind == "owner":
        place.chmod(0o1777)
        os.chown(code, 65534, 65534)
    else:
        (code if kind == "mode" else place).chmod(0o777)
    words = {"owner": f"{code} belongs to another user", "mode": f"other users can write {code}"}
    for message in refusals(run, place, sweep):
        assert words.get(kind, f"other users can write {place}") in " ".join(message.split())
        assert "move the script to a directory of yours" in " ".join(message.split())
    os.chown(code, 0, 0)
    code.chmod(0o755)
    place.chmod(0o1777)  # As /tmp, in which others cannot exchange this user's directory.
    space = code / "space.yaml"
    run("run", space, *HERE, "--home", place / "results", "--resume", sweep.id).succeeded()


@pytest.mark.parametrize("kind", ["absolute", "below", "missing"])
def test_a_program_outside_or_below_the_directory_of_a_script_is_checked_too(
    kind: str, run: Program, tmp_path: Path
) -> None:
    """Python imports modules from the folder of the program, not from the working directory."""
    folder = tmp_path / ("code/below" if kind == "below" else "elsewhere")
    folder.mkdir(parents=True)
    (folder / "train.py").write_text(GOOD)
    program = {"absolute": str(folder / "train.py"), "below": "below/train.py", "missing": "train.py"}[kind]
    command = [program if word == "train.py" else word for word in COMMAND]
    directory = {"directory": str(folder)} if kind == "missing" else {}
    sweep = swept_in(run, tmp_path, command=command, code=None, **directory)
    if kind == "missing":
        shutil.rmtree(folder)
        tmp_path.chmod(0o1777)
        message = run("run", sweep.spec, *HERE, "--home", tmp_path / "results").refused()
        assert f"other users can write {tmp_path}" in message
        return
    folder.chmod(0o777)
    for message in refusals(run, tmp_path, sweep):
        assert f"other users can write {folder}, so {folder / 'train.py'} may now have code" in message


@pytest.mark.parametrize("linked", ["file", "directory"])
def test_a_link_to_a_file_of_a_sweep_starts_no_script(
    linked: str, run: Program, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = swept_by_another_user(run, tmp_path, tmp_path_factory, monkeypatch).spec
    link = tmp_path / "link.yaml"
    if linked == "file":
        link.symlink_to(space)
    else:
        link = tmp_path / "mine" / space.name
        link.parent.symlink_to(space.parent)
    assert "you have never run this script" in run("run", link, "--engine=local", "--home=other").refused()
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("place", ["profiles", "variants"])
def test_a_file_of_a_sweep_cannot_have_its_script_below_a_profile(
    place: str, run: Program, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = swept_by_another_user(run, tmp_path, tmp_path_factory, monkeypatch).spec
    values = strict_yaml.read(space.read_text(), "space").data
    hidden = {"quick": {name: values.pop(name) for name in ("script", "settings")}}
    for name in ("family", "profile", "profile_reason", "variant"):
        values.pop(name, None)
    space.write_text(strict_yaml.write({**values, place: hidden}))
    options = ["--variant=quick"] if place == "variants" else []
    for words in (["run", space, "--engine=local", "--home=other"], ["check-family", space]):
        assert f"cannot have `{place}`" in run(*words, *(options if words[0] == "run" else [])).refused()
    assert not (tmp_path / "started").exists()


def test_an_answer_of_somebody_else_trains_nothing(run: Program, tmp_path: Path) -> None:
    written_space(tmp_path, with_lines("Path('started').touch()"))
    run("run", "space.yaml", "--engine=local").succeeded()
    run("export", "space", "--output", "answer.json").succeeded()
    assert str(tmp_path) not in (tmp_path / "answer.json").read_text()
    (tmp_path / "started").unlink()
    run("verify", "answer.json").succeeded()
    assert "a command in the file is never run" in run("verify", "answer.json", "--retrain", "1").refused()
    written_space(tmp_path / "other", settings={"steps": 8})
    other = ("--space", "other/space.yaml")
    assert "differ from the file" in run("verify", "answer.json", "--retrain", "1", *other).refused()
    assert not (tmp_path / "started").exists()
    assert "the same bits" in run("verify", "answer.json", "--retrain", "1", "--space", "space.yaml").out
    assert (tmp_path / "started").exists()


def test_resuming_uses_the_directory_of_the_named_space(run: Program, tmp_path: Path) -> None:
    """A home could name any other directory. Code that has changed is refused."""
    written_space(tmp_path, settings={"steps": 400, "pace": 0.01})
    run("run", "space.yaml", "--engine=local", "--max-time=3s")
    directory = only_sweep(tmp_path / "results")
    assert (directory.checkpoints / "work").is_dir()
    assert str(tmp_path) in directory.spec.read_text()
    (tmp_path / "train.py").write_text(GOOD + "\nprint('more')\n")
    refused = run("run", "space.yaml", "--engine=local", "--resume", directory.id).refused()
    assert "the code of its script" in refused
    assert "has changed since it started" in refused
    (tmp_path / "train.py").write_text(GOOD)
    text = directory.spec.read_text()
    directory.spec.write_text(text.replace(f"directory: {tmp_path}", "directory: /nowhere"))
    assert "/nowhere" in directory.spec.read_text()
    run("run", "space.yaml", "--engine=local", "--resume", directory.id).succeeded()
    outcomes = [entry.outcome for entry in ended(tmp_path / "results")]
    assert [[point.step for point in one.curve] for one in outcomes] == [list(range(2, 401, 2))] * 4


# Malformed scripts. Each ends in one clear line, and none becomes evidence.

NO_METRICS = "ended with exit code 0 and without an evaluation"


def swept(home: Path, code: str, **changes: Any) -> tuple[str, list[Outcome]]:
    """Run a sweep of a script. Return the error, "" without one, and the outcomes in its journal."""
    changes = {"sizes": [8], "mixes": ["add"], **changes}
    spec = script_spec(home / "code", code, **changes)
    try:
        run_here(spec, home / "results")
        error = ""
    except SweepError as raised:
        error = str(raised)
    return error, [entry.outcome for entry in ended(home / "results")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "message"),
    [
        (with_lines("sys.exit()"), f"{NO_METRICS}: no line has the step (key 'iter')"),
        (with_lines("sys.exit()"), "It printed nothing."),
        (with_lines('sys.stdout.write(\'{"iter": 2, "val_l\'); sys.exit()'), '{"iter": 2, "val_l'),
        (with_lines("os.write(1, os.urandom(1 << 20)); sys.exit()"), NO_METRICS),
        (GOOD.replace('"val_loss"', '"valid_loss"'), "Did you mean 'valid_loss'?"),
        (GOOD.replace("return min(1.0,", "return 100 * min(1.0,"), "divide percentages by 100"),
        (with_lines("if step == 5: report(3)", at="STEP"), "step 3 follows step 4"),
        (with_lines("if step == 6: step = 8", at="STEP"), "steps() allows the run at most 6"),
    ],
)
def test_a_script_that_breaks_the_rules_stops_the_sweep(code: str, message: str, tmp_path: Path) -> None:
    error, outcomes = swept(tmp_path, code)
    assert message in error.splitlines()[0]
    assert outcomes == []


CHANGED = "Path('train.py').write_text('new = 1')"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "kept"), [(with_lines(CHANGED), 0), (with_lines(f"if step == 6: {CHANGED}", at="STEP"), 1)]
)
def test_code_that_changes_stops_the_sweep(code: str, kept: int, tmp_path: Path) -> None:
    """A run is kept if the change came after its first evaluation, when it had imported its files."""
    error, outcomes = swept(tmp_path, code, sizes=[8, 16], settings={"pace": 0.7})
    assert "has other code than when the sweep began" in error.splitlines()[0]
    assert len(outcomes) == kept


WRITES = {
    "by the shell": (
        f"sed s/SIZE/{{size}}/ base.yaml > run.yaml && {' '.join(COMMAND)} --config run.yaml",
        "run.yaml",
        "[base.yaml, train.py]",
    ),
    "by another program": (
        f"{sys.executable} write.py --to run.yaml && {' '.join(COMMAND)} --config run.yaml",
        "run.yaml",
        "[train.py, write.py]",
    ),
    "by the script": (f"{' '.join(COMMAND)} --state state.json", "state.json", "[train.py]"),
}


def space_that_writes(folder: Path, how: str, code: str = "") -> Path:
    """Write a search space of a script that writes settings which its command names."""
    script = GOOD.replace('"resume"):', '"resume", "config", "state"):')
    script += "if given.state: Path(given.state).write_text(repr(time.time()))\n"
    changes: dict[str, Any] = {"command": ["sh", "-c", WRITES[how][0]], "resume": None, "code": None}
    space = written_space(folder, script, script=changes)
    if code:
        space.write_text(space.read_text().replace("script:\n", f"script:\n  code: {code}\n"))
    (folder / "base.yaml").write_text("size: SIZE\n")
    (folder / "write.py").write_text("from pathlib import Path; Path('run.yaml').write_text('a: 1')\n")
    (folder / "state.json").write_text("{}")
    return space


@pytest.mark.slow
@pytest.mark.parametrize("how", WRITES)
def test_a_script_that_writes_its_own_settings_is_told_the_remedy(how: str, run: Program, tmp_path: Path) -> None:
    _, name, code = WRITES[how]
    words = ["run", space_that_writes(tmp_path, how), "--engine=local", "--record=jsonl", "--home", tmp_path / "h"]
    refused = " ".join(run(*words).err.split())
    assert f"has other code than when the sweep began: {name} in {tmp_path} on " in refused
    assert f"If the script itself writes {name}, let it write it to {{out}}" in refused
    assert f"under `script:` without it: `code: {code}`" in refused
    assert "With the present code, --resume would be refused. Begin a new sweep with orchestrator run" in refused
    assert "--resume space-" not in refused

    space_that_writes(tmp_path, how, code)  # What the message says.
    run(*words).succeeded()
    assert "Reused 4 runs" in run(*words).succeeded()


@pytest.mark.slow
def test_restored_code_is_resumed(run: Program, tmp_path: Path) -> None:
    space = written_space(tmp_path, with_lines(f"if not Path('seen').exists(): Path('seen').touch(); {CHANGED}"))
    before = (tmp_path / "train.py").read_text()
    words = ["run", space, "--engine=local", "--record=jsonl", "--home", tmp_path / "h"]
    assert "--resume would be refused" in run(*words).err
    (tmp_path / "train.py").write_text(before)
    run(*words, "--resume").succeeded()


FLOOD = "while True: sys.stdout.write('x' * 99 + chr(10))"
IGNORES = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "message"),
    [
        (with_lines("parser.parse_args(['--unknown'])"), "exit code 2. Its last line: train.py: error: unrecognized"),
        (with_lines("import nothing_of_that_name"), "Its last line: ModuleNotFoundError: No module named 'nothing_of"),
        (with_lines("if step == 3: sys.exit()", at="STEP"), "ended with exit code 0 after step 2 of 60"),
        (with_lines("time.sleep(600)"), "reported nothing for 2 s, so it was ended (script.silent_s)"),
        (with_lines(FLOOD), "reported nothing for 2 s"),
        (with_lines(IGNORES), "reported nothing for 2 s"),
        (with_lines("x = bytearray(500_000_000); time.sleep(600)"), "used more than 0.3 GB"),
        (with_lines("os.kill(os.getpid(), 11)"), "was ended by signal 11"),
    ],
)
def test_a_script_that_fails_is_no_evidence(
    code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainables.script.process.GRACE_S", 1.0)
    # On a busy machine, a script may take two seconds to start.
    script = {"silent_s": 60.0 if "GB" in message else 2.0, "memory_gb": 0.3}
    error, [outcome] = swept(tmp_path, code, script=script, settings={"steps": 60})
    assert "every run failed" in error
    assert outcome.status is Status.FAILED
    [first] = [line for line in error.splitlines() if "ScriptError: " in line]
    assert message in first
    assert not list((tmp_path / "results").rglob("work/*"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        with_lines("for _ in range(200_000): sys.stdout.write('x' * 99 + chr(10))"),  # 20 MB.
        with_lines("if step == 6: sys.stdout.write('no end')", at="STEP"),
        with_lines("if step == 6: report(6); shutil = __import__('shutil'); shutil.rmtree(given.out)", at="STEP"),
        with_lines("Path(given.checkpoint, 'last.json').unlink(missing_ok=True)", at="STEP"),
        with_lines(
            """
            if os.fork() == 0:
                os.setsid()
                os.fork() and os._exit(0)
                Path("pid").write_text(str(os.getpid()))
                time.sleep(600)
            """
        ),
    ],
)
def test_a_careless_script_is_swept(code: str, tmp_path: Path) -> None:
    error, [outcome] = swept(tmp_path, code)
    assert error == ""
    assert outcome.status is Status.FINISHED
    assert [point.step for point in outcome.curve] == [2, 4, 6]
    [output] = (tmp_path / "results" / "runs").glob("*/output.txt")
    assert output.stat().st_size < 1 << 20
    pid = tmp_path / "code" / "pid"
    assert not pid.exists() or not started_at(int(pid.read_text()))


@pytest.mark.slow
def test_a_script_that_diverges_is_data(tmp_path: Path) -> None:
    error, [outcome] = swept(tmp_path, with_lines("if step == 4: report(4, val_loss=float('nan'))", at="STEP"))
    assert error == ""
    assert (outcome.status, outcome.steps, outcome.accuracy) == (Status.DIVERGED, 4, {"add": 0.1})


@pytest.mark.slow
def test_a_run_whose_file_another_run_writes_stops_the_sweep(tmp_path: Path) -> None:
    """The other run writes steps of its own to the file."""
    code = """
    import json, sys, time
    from pathlib import Path
    other, own = Path(sys.argv[2], "metrics.jsonl"), Path(sys.argv[1], "metrics.jsonl")
    for step in (10, 20, 30, 40):
        for path in (own, other):
            with path.open("a") as file:
                file.write(json.dumps({"iter": step, "acc": 0.5}) + chr(10))
        time.sleep(0.5)
    """.replace("\n    ", "\n")
    first, second = tmp_path / "first", tmp_path / "second"
    learners = []
    for here, there in ((first, second), (second, first)):
        script = {
            "command": ["python", "train.py", "{out}", str(there / "out")],
            "metrics": {"step": "iter", "accuracy": "acc"},
            "file": "{out}/metrics.jsonl",
            "resume": None,
            "parameters": None,
        }
        spec = script_spec(tmp_path / f"code of {here.name}", code, script=script, settings={"steps": 40})
        family, run = spec.make_family(), spec.config(spec.requests()[0])
        learner = family.learner([run], device="cpu", cache=tmp_path)
        assert isinstance(learner, ScriptLearner)
        learner.work_in(here)
        learners.append(learner)
    (second / "out").mkdir(parents=True)
    with closing(learners[0]) as one, closing(learners[1]) as other:
        one.advance()

        def go_on() -> None:
            while True:
                one.advance()
                other.advance()

        with pytest.raises(BrokenFamilyError, match="two programs"):
            go_on()


@pytest.mark.parametrize("link", ["directory", "file", "journal", "no journal"])
def test_links_in_a_home_do_not_make_its_scripts_somebodys_own(
    link: str, run: Program, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of a sweep is in a home, wherever a link leads, and whether or not its journal is there."""
    files = swept_by_another_user(run, tmp_path, tmp_path_factory, monkeypatch)
    elsewhere = tmp_path / "z"
    if link == "directory":
        files.directory.rename(elsewhere)
        files.directory.symlink_to(elsewhere)
    elif link == "file":
        files.spec.rename(elsewhere)
        files.spec.symlink_to(elsewhere)
    else:
        files.journal.unlink()
        if link == "journal":
            files.journal.symlink_to("nothing")
    assert "you have never run this script" in run("run", files.spec, "--engine=local", "--home", "own").refused()
    assert not (tmp_path / "started").exists()
    assert not (tmp_path / "own").exists()

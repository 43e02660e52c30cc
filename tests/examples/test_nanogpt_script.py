"""The example of a script, as its readers run it, and killed at random moments."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from orchestrator.home.checkpoints import read_progress
from orchestrator.home.journal import recall
from tests.cli.program import Program, line
from tests.sweep.sweeps import ended, only_sweep
from tests.waiting import wait_for
from trainables.base import Outcome, Status

pytestmark = pytest.mark.slow
EXAMPLE = Path(__file__).parent / "nanogpt_script"
KILLS = int(os.environ.get("SCRIPT_KILLS", "5"))
SMALL = ("--set", "sizes=[3, 6]", "--set", "seeds=1", "--set", "settings.steps=1000", "--home", "results")
"""Four runs of some seconds each."""


@pytest.fixture(autouse=True)
def configuration(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("configuration")))


@pytest.fixture(name="example")
def copied_example(workplace: Path) -> Path:
    shutil.copytree(EXAMPLE, workplace, dirs_exist_ok=True)
    return workplace


def outcomes(home: Path) -> dict[str, tuple[Status, dict[str, float], object]]:
    """Return status, scores and curve of each run in the journal, which has it once."""
    entries = ended(home)
    assert Counter(entry.key for entry in entries).most_common(1)[0][1] == 1
    return {entry.key: _described(entry.outcome) for entry in entries}


def _described(outcome: Outcome) -> tuple[Status, dict[str, float], object]:
    return outcome.status, outcome.accuracy, outcome.curve


@pytest.mark.timeout(900)
def test_the_example_is_checked_and_swept(example: Path, run: Program) -> None:
    assert "continued at step" in run("check-family", "space.yaml").succeeded()
    out = run(
        "run", "space.yaml", "--engine=local", "--home=results", "--set", "seeds=1", "--set", "sizes=[2, 8]"
    ).succeeded()
    assert "mix      n_embd" in out
    scores = {entry.request: entry.outcome.accuracy["max"] for entry in ended(example / "results")}
    assert all((score > 0.8) == (request.size == 8) for request, score in scores.items())


def scripts_in(folder: Path) -> list[psutil.Process]:
    """Return the processes whose working directory is a folder, except the program itself."""
    found = []
    for process in psutil.process_iter():
        try:
            is_there = process.cwd() == str(folder) and "train.py" in process.cmdline()
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
        found += [process] if is_there and "orchestrator" not in process.cmdline() else []
    return found


def below(driver: subprocess.Popen[str], name: str) -> list[psutil.Process]:
    """Return the descendants of a driver with a text in their command lines."""
    found = []
    for process in psutil.Process(driver.pid).children(recursive=True):
        try:
            found += [process] if any(name in word for word in process.cmdline()) else []
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return found


class Disturbed:
    """A sweep of the example that is killed again and again."""

    def __init__(self, folder: Path, engine: str, choice: random.Random) -> None:
        self._folder, self._engine, self._choice = folder, engine, choice
        self.driver = self._started()
        self.killed: Counter[str] = Counter()

    def _started(self, *words: str) -> subprocess.Popen[str]:
        command = line("run", "space.yaml", f"--engine={self._engine}", *SMALL, *words)
        with (self._folder / "log").open("a") as log:
            return subprocess.Popen(command, cwd=self._folder, text=True, stdout=log, stderr=log)

    def progress(self) -> int:
        sweeps = list((self._folder / "results" / "sweeps").glob("*/journal.jsonl"))
        if not sweeps:
            return 0
        directory = only_sweep(self._folder / "results")
        points = sum(len(curve) for path in directory.stacks.glob("*") for curve in read_progress(path).values())
        return points + 1000 * len(recall(directory).ended)

    def kill(self, what: str) -> bool:
        """Kill a part of the sweep. Return False if it is not there."""
        if what == "driver":
            self.driver.kill()
            self.driver.wait()
            self.driver = self._started("--resume", only_sweep(self._folder / "results").id)
            return True
        names = {"guard": "guard.py", "worker": "ray::StackTrial", "raylet": "raylet/raylet"}
        found = scripts_in(self._folder) if what in ("script", "group") else below(self.driver, names[what])
        if not found:
            return False
        chosen = self._choice.choice(found)
        try:
            if what == "group":
                os.killpg(os.getpgid(chosen.pid), signal.SIGKILL)
            else:
                chosen.kill()
        except (ProcessLookupError, psutil.NoSuchProcess):
            return False
        return True

    def run(self, kinds: list[str]) -> Iterator[str]:
        """Kill parts in turn, each after some progress. Yield what was killed."""
        for what in kinds:
            before = self.progress()
            wait_for(lambda before=before: self.progress() > before or self.driver.poll() is not None, 200, self.log)  # type: ignore[misc]
            time.sleep(self._choice.uniform(0, 1))
            if self.driver.poll() is not None:
                return
            if self.kill(what):
                yield what

    def log(self) -> str:
        return (self._folder / "log").read_text()


@pytest.mark.night  # Eight minutes; kills of workers and groups are in tests/trainables/script/test_process.py, too.
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("engine", "kinds"),
    [
        ("local", ["script", "driver", "group", "guard"]),
        ("ray", ["worker", "script", "driver", "group", "guard", "raylet"]),
    ],
)
def test_kills_at_random_moments_lose_and_double_nothing(
    engine: str, kinds: list[str], example: Path, run: Program
) -> None:
    run("run", "space.yaml", "--engine=local", *SMALL).succeeded()
    expected = outcomes(example / "results")
    assert len(expected) == 4
    (example / "results").rename(example / "undisturbed")
    seed = int(os.environ.get("SCRIPT_SEED", "0"))
    sweep = Disturbed(example, engine, random.Random(seed))
    killed = list(sweep.run((kinds * KILLS)[:KILLS]))
    code = sweep.driver.wait(timeout=900)
    if code:  # Killed parts of Ray end a sweep, which then says how to continue it.
        assert "--resume" in sweep.log(), sweep.log()
        run(
            "run", "space.yaml", f"--engine={engine}", *SMALL, "--resume", only_sweep(example / "results").id
        ).succeeded()
    print(f"{engine}: killed {killed}")
    assert len(killed) >= 2, sweep.log()
    assert outcomes(example / "results") == expected
    wait_for(lambda: not scripts_in(example), 35)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", ["local", pytest.param("ray", marks=pytest.mark.night)])
def test_a_killed_driver_leaves_no_process(engine: str, example: Path) -> None:
    sweep = Disturbed(example, engine, random.Random(0))
    wait_for(lambda: scripts_in(example) and sweep.progress(), 200, sweep.log)
    sweep.driver.kill()
    sweep.driver.wait()
    wait_for(lambda: not scripts_in(example), 35)


@pytest.mark.night
@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_an_interrupted_sweep_leaves_no_process_and_continues(engine: str, example: Path, run: Program) -> None:
    sweep = Disturbed(example, engine, random.Random(0))
    wait_for(lambda: scripts_in(example) and sweep.progress(), 200, sweep.log)
    sweep.driver.send_signal(signal.SIGINT)
    sweep.driver.wait(timeout=120)
    wait_for(lambda: not scripts_in(example), 35)
    assert "--resume" in sweep.log()
    run("run", "space.yaml", f"--engine={engine}", *SMALL, "--resume", only_sweep(example / "results").id).succeeded()
    assert len(outcomes(example / "results")) == 4

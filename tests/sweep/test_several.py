"""Several sweeps of one command share the slots: run, stopped, killed, resumed, broken."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from orchestrator.home.checkpoints import Checkpoints
from orchestrator.home.directories import Home
from orchestrator.system.errors import INTERRUPTED
from tests.chaos.program import wait_until_gone
from tests.cli.program import ROOT, command, line
from tests.scripted import Event, events, trained
from tests.sweep.sweeps import ended, interrupt_after, scripted, spec
from tests.waiting import wait_for

NAMES = ("first", "second")


def write(place: Path, name: str, settings: dict[str, object] | None = None, **changes: Any) -> Path:
    """Write a search space of two scripted runs, which log to a file of the space's name."""
    path = place / f"{name}.yaml"
    path.write_text(scripted(place / f"{name}.log", settings or {}, name=name, **changes).to_yaml())
    return path


def sweeps(home: Path) -> dict[str, str]:
    """Return the only sweep of each space, by the space's name."""
    ids = Home(home).sweep_ids()
    id_of = {sweep_id.rsplit("-", 3)[0]: sweep_id for sweep_id in ids}
    assert len(id_of) == len(ids)
    return id_of


def runs(home: Path) -> dict[str, int]:
    """Return how many runs have ended in the sweep of each space."""
    return {name: len(ended(home, sweep_id)) for name, sweep_id in sweeps(home).items()}


def repeated(log: Path) -> int:
    """Return the number of evaluations that were trained again."""
    times = Counter((event.mix, event.size, event.seed, event.step) for event in events(log))
    return sum(times.values()) - len(times)


def words_of(printed: str) -> list[str]:
    """Return the words of a printed command."""
    words = shlex.split(printed)
    return words[words.index("run") :]


def test_sweeps_of_several_spaces_run_on_one_engine(workplace: Path) -> None:
    spaces = [write(workplace, name) for name in NAMES]
    output = command("run", *spaces, "--engine=local").succeeded()
    assert runs(workplace / "results") == {"first": 2, "second": 2}
    assert output.count("this process alone (--engine local)") == 1
    assert all(f"\n{name}: Does PROD help ADD?\n" in output for name in NAMES)
    lines = re.findall(r"^\d\d:\d\d:\d\d (\w+): add \d+ seed 0: ", output, re.MULTILINE)
    assert lines == ["first", "first", "second", "second"]
    again = command("run", *spaces, "--engine=local", "--resume").succeeded()
    assert all(f"{name}: answered by {sweep_id}" in again for name, sweep_id in sweeps(workplace / "results").items())
    assert runs(workplace / "results") == {"first": 2, "second": 2}


def test_a_quiet_command_prints_the_answers_with_their_names(workplace: Path) -> None:
    spaces = [write(workplace, name) for name in NAMES]
    output = command("run", *spaces, "--engine=local", "--quiet").succeeded()
    headings = re.findall(r"^(\w+): Does PROD help ADD\?$", output, re.MULTILINE)
    assert headings == list(NAMES)
    assert "seed 0" not in output


def test_the_exit_code_is_that_of_the_worst_sweep(workplace: Path) -> None:
    """A sweep whose runs all fail does not stop the next one."""
    failing = write(workplace, "first", {"trouble": "bug", "times": 99, "size": 8}, sizes=[8])
    done = command("run", failing, write(workplace, "second"), "--engine=local")
    assert done.code == 1
    assert "first: every run failed" in done.err
    assert "1 of 2 sweeps have no answer: first" in done.err
    assert "\nsecond: Does PROD help ADD?\n" in done.out
    assert f"run {failing}" in done.out
    assert runs(workplace / "results")["second"] == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("first.yaml", "second.yaml", "--resume", "first-1"), "--resume applies to one sweep: name one search space"),
        (("first.yaml", "second.yaml", "--extend", "first-1"), "--extend applies to one sweep: name one search space"),
        (("first.yaml", "first.yaml"), "first.yaml is listed twice"),
        (("first.yaml", "third.yaml"), "third.yaml"),
    ],
)
def test_what_makes_no_sense_for_several_sweeps_is_refused(
    words: tuple[str, ...], message: str, workplace: Path
) -> None:
    for name in NAMES:
        write(workplace, name)
    assert message in command("run", *words, "--engine=local").refused()
    assert not (workplace / "results" / "sweeps").exists()


def test_ctrl_c_leaves_the_sweeps_that_began_and_all_can_be_continued(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spaces = [write(workplace, name, {"steps": 6}) for name in NAMES]
    with monkeypatch.context() as patch:
        interrupt_after(3, patch)
        done = command("run", *spaces, "--engine=local")
    assert done.code == INTERRUPTED
    assert sweeps(workplace / "results").keys() == {"first"}
    [own, together] = [line.strip() for line in done.out.splitlines() if "--resume" in line]
    assert own.endswith(f"--resume {sweeps(workplace / 'results')['first']}")
    command(*words_of(together)).succeeded()
    assert runs(workplace / "results") == {"first": 2, "second": 2}
    for name in NAMES:
        assert trained(workplace / f"{name}.log") == {"add 8 0": 1, "add 16 0": 1}
        assert repeated(workplace / f"{name}.log") == 0


def test_a_time_limit_is_that_of_the_command(workplace: Path) -> None:
    spaces = [write(workplace, name, {"steps": 40, "pace_s": 0.2}) for name in NAMES]
    done = command("run", *spaces, "--engine=local", "--max-time", "4s")
    assert done.code == 1
    assert "first: first-" in done.err
    assert "reached its time limit of 4 s" in done.err
    assert "second: not started: the command reached its time limit" in done.err
    assert "2 of 2 sweeps have no answer: first, second" in done.err
    assert sweeps(workplace / "results").keys() == {"first"}


SLOTS = {"max_stack": 1, "cpu_per_stack": 1, "checkpoint_every_s": 0.1}
"""Resources of the tests under Ray, whose machine has two cores."""


@contextmanager
def under_ray(*spaces: Path, home: Path) -> Iterator[subprocess.Popen[str]]:
    """Run sweeps under Ray in a process of its own."""
    words = line("run", *spaces, "--home", home)
    with subprocess.Popen(
        words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as driver:
        try:
            yield driver
        finally:
            if driver.poll() is None:
                for item in psutil.Process(driver.pid).children(recursive=True):
                    item.kill()
                driver.kill()


def one_run_each(place: Path, **settings: object) -> list[Path]:
    """Write two spaces of one run, which leave a slot of two to each other."""
    return [write(place, name, settings, sizes=[8], resources=SLOTS) for name in NAMES]


def steps(place: Path) -> dict[str, int]:
    """Return the last step of each space's run."""
    return {name: max((event.step for event in events(place / f"{name}.log")), default=0) for name in NAMES}


def both_train(place: Path, step: int) -> Callable[[], bool]:
    return lambda: min(steps(place).values()) >= step


def overlap(one: list[Event], other: list[Event]) -> bool:
    return one[0].begun < other[-1].time and other[0].begun < one[-1].time


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_sweeps_share_two_slots_of_ray_and_survive_the_end_of_their_driver(tmp_path: Path) -> None:
    spaces, home = one_run_each(tmp_path, steps=60, pace_s=0.25), tmp_path / "home"
    with under_ray(*spaces, home=home) as driver:
        wait_for(both_train(tmp_path, 5), 300)
        family = psutil.Process(driver.pid).children(recursive=True)
        driver.kill()
        assert wait_until_gone(family, 120) == []
    logs = [events(tmp_path / f"{name}.log") for name in NAMES]
    assert overlap(*logs)
    assert {event.process for event in logs[0]}.isdisjoint(event.process for event in logs[1])
    before = steps(tmp_path)
    for name, space in zip(NAMES, spaces, strict=True):
        command("run", space, "--home", home, "--engine=local", "--resume", sweeps(home)[name]).succeeded()
        first = next(event.step for event in events(tmp_path / f"{name}.log")[len(logs[NAMES.index(name)]) :])
        assert 1 < first <= before[name] + 1
    assert runs(home) == dict.fromkeys(NAMES, 1)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ctrl_c_leaves_checkpoints_of_all_sweeps_under_ray(tmp_path: Path) -> None:
    spaces, home = one_run_each(tmp_path, steps=60, pace_s=0.25), tmp_path / "home"
    with under_ray(*spaces, home=home) as driver:
        wait_for(both_train(tmp_path, 4), 300)
        os.killpg(driver.pid, signal.SIGINT)
        output, _ = driver.communicate(timeout=300)
    assert driver.returncode == INTERRUPTED, output
    assert "2 stacks will save checkpoints by their next evaluations" in output
    assert "Traceback" not in output
    for name, sweep_id in sweeps(home).items():
        assert f"{sweep_id} has stopped; 0 runs kept, and 1 checkpoint of runs in training" in output
        assert f"run {tmp_path / name}.yaml --home {home} --resume {sweep_id}" in output
        assert len(Checkpoints(Home(home).sweep(sweep_id).checkpoints).stacks()) == 1
    [together] = [line.strip() for line in output.splitlines() if line.endswith("--resume")]
    command(*words_of(together), "--engine=local").succeeded()
    for name in NAMES:
        assert trained(tmp_path / f"{name}.log") == {"add 8 0": 1}
        assert repeated(tmp_path / f"{name}.log") == 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_family_that_breaks_its_contract_stops_only_its_own_sweep(tmp_path: Path) -> None:
    broken = tmp_path / "first.yaml"
    fields = {"mixes": ["add"], "sizes": [8], "seeds": 1, "search": {"method": "grid"}, "resources": SLOTS}
    broken.write_text(spec(name="first", family="tests.sweep.broken:PercentFamily", **fields).to_yaml())
    home = tmp_path / "home"
    whole = write(tmp_path, "second", {"steps": 20, "pace_s": 0.1}, resources=SLOTS)
    with under_ray(broken, whole, home=home) as driver:
        output, _ = driver.communicate(timeout=600)
    assert driver.returncode == 1, output
    assert "1 of 2 sweeps have no answer: first" in output
    assert "\nsecond: Does PROD help ADD?\n" in output
    assert runs(home) == {"first": 0, "second": 2}
    assert trained(tmp_path / "second.log") == {"add 8 0": 1, "add 16 0": 1}

"""Sweeps on three hosts with separate disks and a failing network get the same results as on one machine."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from orchestrator.home.directories import Home
from tests.chaos.ground import QUICK
from tests.chaos.paced import RUNS, write_space
from tests.chaos.program import ENVIRONMENT, GCS, RAYLET, ROOT, Program, evaluations, journalled
from tests.chaos.rounds import SEEDS, Counted, count, truth
from tests.engine.hosts import OWN_DISK, Hosts, connected_hosts
from tests.scripted import events
from tests.waiting import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

NOTHING = Counted(lost=0, doubled=0, changed=0, same_answer=True)
WAIT_S = 300.0
STEPS = 3


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
    """Three hosts. Ray requires a token there, and drops a silent node or a silent head after some seconds."""
    token = tmp_path / "token"
    token.write_text("0123456789abcdef" * 4)
    token.chmod(0o600)
    environment = {
        **ENVIRONMENT,
        **QUICK,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_health_check_timeout_ms": "2000",
        "RAY_gcs_rpc_server_reconnect_timeout_s": "15",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    # A short path, because paths of sockets are limited to about 100 characters.
    with tempfile.TemporaryDirectory(prefix="hosts-") as short, connected_hosts(3, Path(short)) as made:
        yield made


def commands(first: str) -> list[list[str]]:
    """Return the commands that deploy/README.md gives for a few machines with ssh."""
    text = (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")
    section = text.partition("## Plain ssh")[2].partition("\n## ")[0]
    lines = re.findall(r"^    (\S.*)$", section, re.MULTILINE)
    return [shlex.split(line.replace("FIRST", first), comments=True) for line in lines]


def start(hosts: Hosts, home: Path, *numbers: int) -> None:
    """Start Ray on these hosts, with its head on the first; all others have an empty disk in place of the home."""
    head, _, _ = commands(hosts.address(numbers[0]))
    hosts.start_ray(numbers[0], [*head[1:], "--include-dashboard=false", "--no-monitor"])
    hosts.part(numbers[0], RAYLET)
    for number in numbers[1:]:
        join(hosts, numbers[0], number, home)
    for number in numbers[1:]:
        hosts.part(number, RAYLET)


def join(hosts: Hosts, head: int, number: int, *places: Path) -> None:
    """Join a host to the head's cluster, with an empty disk in each of these places."""
    _, node, _ = commands(hosts.address(head))
    hosts.start_ray(number, node[1:], " && ".join(OWN_DISK.format(home=place) for place in places))


def begin(hosts: Hosts, head: int, space: Path, home: Path, log: Path, *words: str) -> Program:
    """Start a sweep whose driver runs on the head."""
    command = commands(hosts.address(head))[2]
    assert command[:5] == ["python", "-m", "orchestrator", "run", "add_vs_add_prod"]
    return Program(space, home, log, *command[5:], *words, on=hosts.on(head))


def resources(stack: int) -> dict[str, Any]:
    return {"resources": {"max_stack": stack, "cpu_per_stack": 1, "checkpoint_every_s": 0.001}}


def test_the_documented_commands_give_an_answer_on_a_cluster(hosts: Hosts, tmp_path: Path) -> None:
    assert len(commands("FIRST")) == 3
    expected = truth(tmp_path / "truth")
    home, log = tmp_path / "home", tmp_path / "log"
    home.mkdir()
    start(hosts, home, 1, 2, 3)
    program = begin(hosts, 1, write_space(tmp_path, pace_s=0.4, seeds=SEEDS, **resources(1)), home, log)
    try:
        assert program.end() == 0, log.read_text()
    finally:
        program.kill()
    assert "3 nodes, 3 CPU cores, 3 stacks at a time" in log.read_text()
    assert count(home, log, expected) == NOTHING


@pytest.mark.parametrize("ships", [True, False])
def test_a_shipped_folder_reaches_hosts_that_do_not_have_it(hosts: Hosts, tmp_path: Path, ships: bool) -> None:
    home, log, mine = tmp_path / "home", tmp_path / "log", tmp_path / "mine"
    home.mkdir()
    mine.mkdir()
    own = "from pathlib import Path\nfrom tests.scripted import ScriptedFamily\nfrom my_parts import NAME\n"
    own += "assert Path(__file__).with_name('table.csv').read_text() == '1,2'\n"
    (mine / "my_models.py").write_text(f"{own}\nclass Mine(ScriptedFamily):\n    name = NAME\n")
    (mine / "my_parts.py").write_text("NAME = 'mine'\n")
    (mine / "table.csv").write_text("1,2")
    (mine / ".env").write_text("SECRET=1")
    events_log = tmp_path / "events"
    settings = {"steps": STEPS, "pace_s": 0.3, "log": str(events_log)}
    space = write_space(mine, pace_s=0.3, family="my_models:Mine", settings=settings, **resources(1))
    head, _, _ = commands(hosts.address(1))
    hosts.start_ray(1, [*head[1:], "--include-dashboard=false", "--no-monitor"])
    hosts.part(1, RAYLET)
    for number in (2, 3):
        join(hosts, 1, number, home, mine)
    for number in (2, 3):
        hosts.part(number, RAYLET)
    program = begin(hosts, 1, space, home, log, *(["--ship"] if ships else []))
    try:
        code, text = program.end(), log.read_text()
    finally:
        program.kill()
    if not ships:
        assert code == 1, text
        assert "my_models" in text
        return
    assert code == 0, text
    assert f"Shipping {mine} (4 files" in text
    assert len(journalled(home)) == RUNS
    assert len({event.process for event in events(events_log)}) >= len(hosts.numbers)


def test_a_cut_host_that_reconnects_and_a_lost_head_lose_no_results(hosts: Hosts, tmp_path: Path) -> None:
    """Two runs on three hosts are held before their ends. One host is disconnected until the free host has continued
    its run from the checkpoint, then reconnected, so that the run ends on both. The other run is still held when the
    head dies; it ends on a host that has the home and becomes the head."""
    changes: dict[str, Any] = {"mixes": ["add"], "sizes": [16, 64], "seeds": 1}
    expected = truth(tmp_path / "truth", **changes)
    home, holds, log = tmp_path / "home", tmp_path / "holds", tmp_path / "log"
    home.mkdir()
    holds.mkdir()
    held = {str(size): holds / f"{size}-{STEPS}" for size in changes["sizes"]}
    for item in held.values():
        item.touch()
    settings = {"steps": STEPS, "holds": str(holds)}
    space = write_space(tmp_path, pace_s=0, settings=settings, **changes, **resources(1))
    start(hosts, home, 1, 2, 3)
    program = begin(hosts, 1, space, home, log)
    try:
        wait_for(lambda: evaluations(home) == len(held) * (STEPS - 1), WAIT_S, log.read_text)
        [free] = [number for number in hosts.numbers if not hosts.workers(number)]
        cut = next(number for number in (3, 2) if number != free)
        [ghost] = hosts.workers(cut)
        [trained] = re.findall(r" size (\d+) ", " ".join(ghost.cmdline()))
        hosts.cut(cut)
        wait_for(lambda: hosts.workers(free), WAIT_S, log.read_text)
        assert not journalled(home)
        assert ghost.is_running()
        hosts.heal(cut)
        held.pop(trained).unlink()
        wait_for(lambda: journalled(home), WAIT_S, log.read_text)
        hosts.part(1, GCS).kill()
        assert program.end() == 1, log.read_text()
        for number in hosts.numbers:
            hosts.end(number)
        [sweep_id] = Home(home).sweep_ids()
        assert "GCS may have been killed" in log.read_text()
        start(hosts, home, 2)
        program = begin(hosts, 2, space, home, log, "--resume", sweep_id)
        held.popitem()[1].unlink()
        assert program.end() == 0, log.read_text()
    finally:
        program.kill()
    assert count(home, log, expected) == NOTHING


REMOVALS = int(os.environ.get("NODE_REMOVALS", "2"))
"""Number of hosts that are removed, every other one with notice."""
PACE_S, EVERY_S = 0.5, 2.0
"""Seconds of training between two evaluations, and between two checkpoints."""


@pytest.mark.timeout(600 + 60 * REMOVALS)
def test_hosts_that_are_removed_cost_no_more_than_the_time_between_checkpoints(hosts: Hosts, tmp_path: Path) -> None:
    """Hosts other than the driver's have disks of their own, also for scratch. Each that is removed comes back with
    empty ones."""
    home, scratch, events_log, log = (tmp_path / name for name in ("home", "scratch", "events", "log"))
    for place in (home, scratch):
        place.mkdir()
    steps = 60 * REMOVALS
    changes: dict[str, Any] = {"mixes": ["add"], "sizes": [16, 64], "seeds": 1}
    expected = truth(tmp_path / "truth", **changes, settings={"steps": steps})
    changes["settings"] = {"steps": steps, "pace_s": PACE_S, "log": str(events_log)}
    changes["resources"] = {
        "max_stack": 1, "cpu_per_stack": 1, "checkpoint_every_s": EVERY_S, "scratch": str(scratch)
    }  # fmt: skip
    space = write_space(tmp_path, pace_s=PACE_S, **changes)
    head = commands(hosts.address(1))[0]
    hosts.start_ray(1, [*head[1:], "--include-dashboard=false", "--no-monitor"], cpus=0)
    hosts.part(1, RAYLET)
    for number in (2, 3):
        join(hosts, 1, number, home, scratch)
        hosts.part(number, RAYLET)
    program = begin(hosts, 1, space, home, log)
    try:
        for removal in range(REMOVALS):
            number = (2, 3)[removal % 2]
            wait_for(partial(has_events, events_log, len(events(events_log)) + 9), WAIT_S, log.read_text)
            wait_for(partial(hosts.trains, number), WAIT_S, log.read_text)
            assert program.process.poll() is None, "the sweep ended too early"
            if removal % 4 < 2:
                hosts.drain(1, number, 60)
                wait_for(partial(hosts.is_idle, number), WAIT_S, log.read_text)
            hosts.end(number)
            join(hosts, 1, number, home, scratch)
            hosts.part(number, RAYLET)
        assert program.end() == 0, log.read_text()
    finally:
        program.kill()
    assert count(home, log, expected) == NOTHING
    lost = steps_taken_again(events_log)
    print(f"{REMOVALS} hosts removed; evaluations trained again: {lost}")
    assert len(lost) <= REMOVALS
    assert all(steps * PACE_S <= EVERY_S + 2 * PACE_S for steps in lost)


def has_events(log: Path, count: int) -> bool:
    """Return True once a log has so many events."""
    return len(events(log)) >= count


def steps_taken_again(log: Path) -> list[int]:
    """Return the number of evaluations that were trained again, for each time that a run went back."""
    reached: dict[int, int] = {}
    lost = []
    for event in events(log):
        if event.step > 0:
            if event.step <= (last := reached.get(event.size, 0)):
                lost.append(last + 1 - event.step)
            reached[event.size] = event.step
    return lost

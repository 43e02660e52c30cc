"""Runs belong to the home: a sweep reuses runs that another one trained."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.home.directories import Home
from orchestrator.home.run_files import Origin, ProbeResult, read_origin, write_origin, write_result
from orchestrator.home.run_store import RunStore
from tests.catalog.fabricated import leave_run, outcome_of, runs_of, write_sweep
from tests.cli.program import command, started
from tests.engine.test_campaign import GOOD
from tests.scripted import FAMILY, trained
from tests.sweep.sweeps import ended, spec, table_of

Spaces = Callable[..., tuple[Path, Path]]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "trained.txt"


@pytest.fixture
def spaces(tmp_path: Path, log: Path) -> Spaces:
    """Two search spaces that share their baseline, with two sizes and two seeds."""

    def write(pace_s: float = 0.0) -> tuple[Path, Path]:
        files = []
        for name, mix in (("with_prod", "add+prod"), ("with_max", "add+max")):
            files.append(tmp_path / f"{name}.yaml")
            files[-1].write_text(
                f"name: {name}\nquestion: Does it help ADD?\nfamily: {FAMILY}\ntarget: add\n"
                f"mixes: [add, {mix}]\nsizes: [8, 96]\nseeds: 2\nsearch: {{method: grid}}\n"
                f"settings: {{log: {log}, pace_s: {pace_s}}}\n"
            )
        return files[0], files[1]

    return write


def output_of(process: subprocess.Popen[str]) -> str:
    """Return the output of a program that succeeds."""
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0, out
    return out


def run_here(home: Path, *words: object) -> str:
    """Run a command that succeeds in this process. Return its output."""
    done = command(*words, "--home", home)
    assert done.code == 0, done.out + done.err
    return done.out + done.err


def sweep_of(home: Path, space: str) -> str:
    [result] = [item for item in Home(home).sweep_ids() if item.startswith(space)]
    return result


def test_a_shared_baseline_is_trained_once_without_changing_the_answer(
    spaces: Spaces, log: Path, tmp_path: Path
) -> None:
    first, second = spaces()
    run_here(tmp_path / "home", "run", first, "--engine=local")
    out = run_here(tmp_path / "home", "run", second, "--engine=local")
    assert set(trained(log).values()) == {1}
    assert len(trained(log)) == 12  # 4 of the baseline and 4 of each mix; separate homes would train 16.
    sweep_id = sweep_of(tmp_path / "home", "with_prod")
    assert f"Reused 4 runs, trained for {sweep_id} (4)." in out
    status = run_here(tmp_path / "home", "status", "with_max")
    assert re.search(r"4 runs trained for [^;]*, and 4 reused ", status)
    alone = run_here(tmp_path / "other home", "run", second, "--engine=local")
    assert table_of(out) == table_of(alone) != []


def test_fresh_trains_every_run_again_and_reports_it(spaces: Spaces, log: Path, tmp_path: Path) -> None:
    first, second = spaces()
    run_here(tmp_path, "run", first, "--engine=local")
    out = run_here(tmp_path, "run", second, "--engine=local", "--fresh")
    assert "which trains every run again" in out
    assert "Reused" not in out
    assert trained(log)["add 8 0"] == 2
    assert len(list((tmp_path / "runs").iterdir())) == 16  # Runs of a fresh sweep have their own keys.
    run_here(tmp_path, "run", second, "--engine=local", "--extend", sweep_of(tmp_path, "with_max"))
    assert trained(log)["add 8 0"] == 2


@pytest.mark.parametrize("engine", [["--engine=local"], pytest.param([], marks=pytest.mark.night)])
def test_two_sweeps_at_once_train_a_run_once(engine: list[str], spaces: Spaces, log: Path, tmp_path: Path) -> None:
    both = [started("run", space, *engine, "--record=jsonl", "--home", tmp_path) for space in spaces(pace_s=0.1)]
    outs = [output_of(item) for item in both]
    assert set(trained(log).values()) == {1}, trained(log)
    assert len(trained(log)) == 12
    reused = [int(count) for out in outs for count in re.findall(r"^Reused (\d+) run", out, re.M)]
    assert sum(reused) == 4
    for space in ("with_prod", "with_max"):
        assert len(ended(tmp_path, sweep_of(tmp_path, space))) == 8


def test_after_a_kill_another_sweep_continues_and_the_first_can_be_resumed(
    spaces: Spaces, log: Path, tmp_path: Path
) -> None:
    first, second = spaces(pace_s=0.3)
    killed = started("run", first, "--engine=local", "--record=jsonl", "--home", tmp_path)
    while len(stored := list((tmp_path / "runs").glob("[0-9a-f]*/outcome.json"))) < 2:
        assert killed.poll() is None, killed.communicate()
        time.sleep(0.02)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    lost = trained(log).total() - len(stored)  # Fully trained, but killed before they were stored.
    out = run_here(tmp_path, "run", second, "--engine=local")
    reused = re.search(r"^Reused (\d+) run", out, re.M)
    assert reused is not None
    assert int(reused[1]) >= 1
    run_here(tmp_path, "run", first, "--engine=local", "--resume")
    assert len(trained(log)) == 12
    assert trained(log).total() - 12 <= lost
    assert len(ended(tmp_path, sweep_of(tmp_path, "with_prod"))) == 8


def test_a_claim_is_valid_while_its_sweep_has_a_driver(tmp_path: Path) -> None:
    home = Home(tmp_path)
    mine, other = home.sweep("mine-1"), home.sweep("other-1")
    for files in (mine, other):
        files.directory.mkdir(parents=True)
    with other.driving():
        assert RunStore(other.home, other.id).claim("key")
        assert RunStore(other.home, other.id).claim("key")
        assert not RunStore(mine.home, mine.id).claim("key")
    assert RunStore(mine.home, mine.id).claim("key")  # The other sweep no longer has a driver.
    with mine.driving():
        assert not RunStore(other.home, other.id).claim("key")
        RunStore(other.home, other.id).free("key")  # It cannot release another sweep's claim.
        assert not RunStore(other.home, other.id).claim("key")
        RunStore(mine.home, mine.id).free("key")
        assert RunStore(other.home, other.id).claim("key")


def test_rm_keeps_the_runs_that_another_sweep_refers_to(tmp_path: Path) -> None:
    home = Home(tmp_path)
    first, second = (write_sweep(home, spec(name=name, mixes=["add", f"add+{name}"])).id for name in ("prod", "max"))
    runs = RunStore(home).stored_keys()
    for sweep_id, left in ((first, len(runs) * 2 // 3), (second, 0)):
        run_here(tmp_path, "rm", sweep_id, "--yes")
        assert len(RunStore(home).stored_keys()) == left


def test_rm_removes_runs_that_a_sweep_trained_or_refers_to_except_those_that_another_trains(tmp_path: Path) -> None:
    home = Home(tmp_path)
    existing = write_sweep(home, spec(sizes=[8])).id
    keys, journal = RunStore(home).stored_keys(), home.sweep(existing).journal
    whole = journal.read_bytes()
    journal.write_bytes(whole[: whole.index(b"\n") + 1])  # As after a crash before the runs were journalled.
    assert RunStore(home, existing).own_keys() == keys
    journal.write_bytes(whole)
    for key in keys:
        write_origin(home.runs / key, "removed-1")
    assert RunStore(home, existing).own_keys() == keys
    other = home.sweep("other-1")
    other.directory.mkdir(parents=True)
    with other.driving():
        assert RunStore(other.home, other.id).claim(keys[0])
        assert RunStore(home, existing).own_keys() == keys[1:]


def test_rm_of_an_imported_sweep_keeps_runs_that_were_trained_here(tmp_path: Path) -> None:
    """Its journal names a run that has just ended here and is not in another journal yet."""
    home = Home(tmp_path)
    own, imported = (write_sweep(home, spec(seed=seed, seeds=1, sizes=[8])) for seed in (0, 1))
    leave_run(RunStore(home, own.id), "unnamed", runs_of(spec())[0], outcome_of(runs_of(spec())[0]))
    keys = RunStore(home, imported.id).own_keys()
    for key in keys:
        write_origin(home.runs / key, "elsewhere-1")
        (home.runs / key / ".imported").touch()
    imported.files.imported.touch()
    with imported.files.journal.open("ab") as journal:
        journal.write(b'{"key":"unnamed"}\n')
    assert RunStore(home, imported.id).own_keys() == keys
    imported.files.imported.unlink()
    assert set(RunStore(home, imported.id).own_keys()) == {*keys, "unnamed"}


@pytest.mark.parametrize("mention", ['"key":"%s"', '{"damaged: %s.', '"runs/%s/outcome.json"'])
def test_rm_keeps_a_run_that_another_journal_names_anywhere(tmp_path: Path, mention: str) -> None:
    home = Home(tmp_path)
    existing = write_sweep(home, spec(sizes=[8])).id
    keys = RunStore(home).stored_keys()
    other = home.sweep("other-1")
    other.directory.mkdir(parents=True)
    other.journal.write_text(mention % keys[1] + "\n")
    assert RunStore(home, existing).own_keys() == [key for key in keys if key != keys[1]]


def test_only_runs_that_no_other_sweep_names_are_opened_to_find_own_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home has thousands of runs, and the owner of most of them follows from the journals."""
    home = Home(tmp_path)
    first, second = (write_sweep(home, spec(seed=seed, seeds=1, sizes=[8])).id for seed in (0, 1))
    leave_run(RunStore(home, first), "unnamed", runs_of(spec())[0], outcome_of(runs_of(spec())[0]))
    opened: list[str] = []

    def opens(directory: Path) -> Origin | None:
        opened.append(directory.name)
        return read_origin(directory)

    monkeypatch.setattr("orchestrator.home.run_store.read_origin", opens)
    own = RunStore(home, first).own_keys()
    named = {run.key for run in ended(home.root, first)}
    assert (set(own), opened) == (named | {"unnamed"}, ["unnamed"])
    assert named.isdisjoint(RunStore(home, second).own_keys())


def test_the_directory_entry_of_a_run_is_flushed_like_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rename can be lost in a power failure unless the directory is flushed afterwards."""
    flushed: list[tuple[Path, list[str]]] = []

    def flush(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        names = sorted(os.listdir(path)) if path.is_dir() else []
        flushed.append((path, [name for name in names if not name.startswith(".")]))  # A hidden one is removed next.

    monkeypatch.setattr(os, "fsync", flush)
    runs = RunStore(Home(tmp_path))
    runs.put("key", GOOD, {})
    assert flushed[-1] == (tmp_path / "runs", ["key"])
    write_result(runs.directory("key"), ProbeResult("mine", 1), {})
    assert flushed[-1] == (tmp_path / "runs" / "key" / "probes", ["mine.json"])

"""The ``stop`` command stops a sweep, a mix or a run from another process, and the answer reports it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.catalog.reading import read_sweep
from orchestrator.engine.messages import StackReport
from orchestrator.engine.worker import StackWorker
from orchestrator.history.journal import Begun, read_journal, to_line
from orchestrator.home.checkpoints import Checkpoints
from orchestrator.home.directories import Home
from orchestrator.report.sentences.findings import caveats
from orchestrator.report.sentences.transitions import verdict_line
from orchestrator.site.pages import SweepPages
from orchestrator.space.spaces import load_space
from orchestrator.space.spec import SweepSpec
from tests.catalog.fabricated import write_sweep
from tests.cli.program import Program, separate, started
from tests.scripted import events
from tests.sweep.sweeps import ended, only_sweep, printed, quiet, run_here, scripted
from tests.waiting import meanwhile
from trainables.base import Status

pytestmark = pytest.mark.usefixtures("undrawn")


def slow_spec(log: Path, sizes: tuple[int, ...] = (8, 16, 32), **settings: float | str) -> SweepSpec:
    """Return a spec of two mixes with one seed, whose runs train one after the other."""
    return scripted(log, {"steps": 8, **settings}, mixes=["add", "add+prod"], sizes=sizes)


def say_stop(home: Path, *words: str) -> None:
    """Run the ``stop`` command as a user would in another terminal."""
    assert "will stop" in separate("stop", "logistic", *words, "--home", home, within_s=200).succeeded()


def test_a_mix_is_stopped_from_another_terminal_and_marked_in_the_answer(tmp_path: Path) -> None:
    log, console = tmp_path / "log", quiet()
    sweep = slow_spec(log, pace_s=0.5)
    asking = meanwhile(lambda: bool(events(log)), lambda: say_stop(tmp_path, "--mix", "add+prod"))
    result = run_here(sweep, tmp_path, console=console)
    asking.join()
    output = printed(console)
    assert "add+prod was stopped by hand: it gets no more runs" in output
    joint = result.mix("add+prod")
    assert joint.stopped
    assert not result.mix("add").stopped
    assert result.mix("add").runs == 3
    assert joint.runs < 3
    assert verdict_line(result, joint).endswith("; stopped by hand")
    note = "add+prod was stopped by hand."
    assert note in caveats(result)
    assert note in output
    sweep_id = only_sweep(tmp_path).id
    assert read_sweep(Home(tmp_path), sweep_id).answer == result
    # The stopped mix stays stopped; all other runs exist.
    again = quiet()
    assert run_here(sweep, tmp_path, resume=sweep_id, console=again) == result
    assert f"To train it again, start a new sweep with --extend {sweep_id}" in printed(again)


def test_a_sweep_stopped_from_another_terminal_can_be_resumed(tmp_path: Path) -> None:
    log, console = tmp_path / "log", quiet()
    hold = tmp_path / "holds" / "16-2"  # The first run of 16 waits until the other process has asked.
    hold.parent.mkdir()
    hold.touch()
    sweep = slow_spec(log, holds=str(hold.parent))

    def ask() -> None:
        say_stop(tmp_path)
        hold.unlink()

    asking = meanwhile(lambda: any(event.size == 16 for event in events(log)), ask)
    with pytest.raises(KeyboardInterrupt):
        run_here(sweep, tmp_path, console=console)
    asking.join()
    files = only_sweep(tmp_path)
    assert f"A stop of {files.id} was requested" in printed(console)
    assert f"--resume {files.id}" in printed(console)
    assert len(ended(tmp_path)) < 6
    # The page of all sweeps shows the path of the spec in the sweep's directory.
    again = load_space(str(files.spec))
    assert f"run {files.spec} --resume {files.id}" in SweepPages(Home(tmp_path)).index()
    run_here(again, tmp_path, resume=files.id)
    entries = ended(tmp_path)
    assert len(entries) == 6
    assert {entry.outcome.status for entry in entries} == {Status.FINISHED}


def test_invalid_stop_requests_are_refused(run: Program, tmp_path: Path) -> None:
    sweep = write_sweep(Home(tmp_path), runs=[], answered=False)
    assert "is not running" in run("stop", "logistic", "--home", tmp_path).err
    with Home(tmp_path).sweep(sweep.id).driving():
        refused = run("stop", "logistic", "--mix", "add+prd", "--home", tmp_path).refused()
        assert "Did you mean 'add+prod'?" in refused


@pytest.mark.night
@pytest.mark.timeout(900)
def test_stopping_a_mix_under_ray_frees_its_slot(tmp_path: Path) -> None:
    """Its stack would train for ten more minutes; the sweep takes a fraction of that."""
    log, home = tmp_path / "log", tmp_path / "home"
    (tmp_path / "space.yaml").write_text(slow_spec(log, (8,), pace_s=0.5, steps=1200).to_yaml())
    with started("run", tmp_path / "space.yaml", "--home", home) as driver:
        deadline = time.monotonic() + 600
        while len(events(log)) < 5 and time.monotonic() < deadline and driver.poll() is None:
            time.sleep(0.1)
        if len(events(log)) < 5:
            driver.kill()
            raise AssertionError(driver.communicate()[0])
        begun = time.monotonic()
        for mix in ("add", "add+prod"):
            say_stop(home, "--mix", mix)
        output, _ = driver.communicate(timeout=300)
    assert driver.returncode == 0, output
    assert time.monotonic() - begun < 200
    assert "add was stopped by hand: it gets no more runs" in output
    assert "add was stopped by hand." in output


def stop_mix_at(step: int, log: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop ADD+PROD, as the command does, after this step of a run of it."""
    monkeypatch.setattr("orchestrator.sweep.interruption.POLL_EVERY_S", 0.0)
    advance = StackWorker.advance

    def watched(worker: StackWorker) -> StackReport:
        report = advance(worker)
        if any((event.mix, event.step) == ("add+prod", step) for event in events(log)):
            monkeypatch.setattr(StackWorker, "advance", advance)
            only_sweep(home).request_stop("add+prod")
        return report

    monkeypatch.setattr(StackWorker, "advance", watched)


@pytest.mark.parametrize("has_other_code", [False, True])
def test_an_extension_continues_a_stopped_run_from_its_checkpoint(
    has_other_code: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    space = scripted(log, {"steps": 6}, mixes=["add", "add+prod"], sizes=[8])
    stop_mix_at(3, log, tmp_path, monkeypatch)
    run_here(space, tmp_path)
    first = only_sweep(tmp_path)
    assert len(Checkpoints(first.checkpoints).stacks()) == 1
    if has_other_code:  # The code that began the run, not that of finished runs, which would be refused.
        begun, rest = next(read_journal(first.journal)), first.journal.read_bytes().partition(b"\n")[2]
        assert isinstance(begun, Begun)
        first.journal.write_bytes(to_line(replace(begun, source="0" * 16)) + rest)
    result = run_here(space, tmp_path, extend=first.id)
    assert [mix.finished for mix in result.mixes] == [1, 1]
    steps = [event.step for event in events(log) if event.mix == "add+prod"]
    assert steps == ([1, 2, 3, 1, 2, 3, 4, 5, 6] if has_other_code else [1, 2, 3, 4, 5, 6])
    [second] = set(Home(tmp_path).sweep_ids()) - {first.id}
    assert Checkpoints(Home(tmp_path).sweep(second).checkpoints).stacks() == []

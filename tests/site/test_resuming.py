"""Resuming on the page: by processes of their own, for who has the page's secret, and once."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.catalogue.reading import State, read_sweep
from orchestrator.home.files import Home
from orchestrator.home.lifecycle import driving
from orchestrator.site.resuming import Resuming
from orchestrator.site.server import serving
from orchestrator.site.sweeps import SweepPages
from tests.catalogue.fabricated import runs_of, write_sweep
from tests.site.asking import get, post
from tests.sweep.sweeps import spec
from tests.sweep.unhurried import FAMILY, lines

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 200.0


@pytest.fixture(name="steered")
def steered_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Home]]:
    monkeypatch.chdir(ROOT)  # Where a resumed sweep's family is imported from.
    home = Home(tmp_path)
    with serving(SweepPages(home, refresh_s=2, resuming=Resuming(["--local-debug"])), 0, "a-secret") as address:
        yield address, home


def wait_until(true: Callable[[], bool], said: Callable[[], str]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < until, said()
        time.sleep(0.2)


def test_what_was_not_interrupted_is_not_resumed(steered: tuple[str, Home]) -> None:
    address, home = steered
    finished = write_sweep(home)
    begun = write_sweep(home, runs=runs_of(spec())[:3], answered=False)
    with driving(home.sweep(begun.id)):
        assert f"resume/{begun.id}" not in get(address)
        assert post(f"{address}resume/{begun.id}", "") == 409
    assert f'action="resume/{begun.id}"' in get(address)
    assert f"resume/{finished.id}" not in get(address)
    assert post(f"{address}resume/{finished.id}", "") == 409
    assert post(f"{address}resume/nothing", "") == 409
    assert not home.sweep(begun.id).resumed_log.exists()


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1"])
def test_another_page_resumes_nothing(steered: tuple[str, Home], origin: str) -> None:
    """Nor does one that does not know the secret, or asks to see instead of to do."""
    address, home = steered
    sweep = write_sweep(home, runs=runs_of(spec())[:3], answered=False)
    assert post(f"{address}resume/{sweep.id}", "", Origin=origin) == 403
    assert post(f"{address.replace('a-secret', 'a-guess')}resume/{sweep.id}", "") == 403
    assert post(f"{address.replace('a-secret/', '')}resume/{sweep.id}", "") == 403
    with serving(SweepPages(home), 0) as open_to_all:
        assert "<form" not in get(open_to_all)
        assert post(f"{open_to_all}resume/{sweep.id}", "") == 404
    assert not home.sweep(sweep.id).resumed_log.exists()


def test_a_sweep_that_cannot_be_resumed_says_why_on_the_page(steered: tuple[str, Home]) -> None:
    address, home = steered
    asked = spec(resources={"cpu_per_stack": (os.cpu_count() or 1) + 1})
    sweep = write_sweep(home, asked, runs=runs_of(asked)[:3], answered=False)
    assert post(f"{address}resume/{sweep.id}", "") == 200  # After the way back to the page.
    assert post(f"{address}resume/{sweep.id}", "") == 409  # It is being tried.
    shown = get(address)
    assert re.search(r"Process \d+ drives it", shown)
    assert f'action="resume/{sweep.id}"' not in shown
    wait_until(lambda: "ended with exit code 2" in get(address), lambda: get(address))
    assert "CPU cores: give each stack" in get(address)
    assert f'action="resume/{sweep.id}"' in get(address)


def test_a_sweep_stopped_on_the_page_of_a_run_is_resumed_there_and_outlives_it(tmp_path: Path) -> None:
    log, said = tmp_path / "log", tmp_path / "said"
    asked = spec(
        family=FAMILY,
        sizes=[8, 16],
        seeds=1,
        search={"method": "grid"},
        settings={"log": str(log), "steps": 8, "evaluation_s": 0.3},
    )
    (tmp_path / "space.yaml").write_text(asked.to_yaml())
    command = [sys.executable, "-m", "orchestrator", "run", str(tmp_path / "space.yaml"), "--local-debug", "--watch"]
    home = Home(tmp_path / "home")
    with said.open("w") as out:
        run = subprocess.Popen(
            [*command, "--home", str(home.root)], cwd=ROOT, stdout=out, stderr=out, start_new_session=True
        )
    try:
        wait_until(lambda: len(lines(log)) > 3, said.read_text)
        address = re.findall(r"page    (http://127\.0\.0\.1:\d+/\S+/) shows", said.read_text())[0]
        [sweep_id] = home.sweep_ids()
        assert post(f"{address}stop/{sweep_id}", "mix=") == 200
        wait_until(lambda: f'action="resume/{sweep_id}"' in get(address), said.read_text)
        assert "The page stays as long as a browser shows it" in said.read_text()
        ended = len(read_sweep(home, sweep_id).runs)
        assert ended < 4
        assert post(f"{address}resume/{sweep_id}", "") == 200
        wait_until(lambda: read_sweep(home, sweep_id).state is State.RUNNING, said.read_text)
    finally:
        os.killpg(run.pid, signal.SIGKILL)  # As a terminal's end, and worse.
        run.wait()
    files = home.sweep(sweep_id)
    wait_until(lambda: read_sweep(home, sweep_id).state is State.FINISHED, files.resumed_log.read_text)
    assert len(read_sweep(home, sweep_id).runs) == 4
    trained = sorted(line for line in lines(log) if line != "data")
    assert len(trained) == 4 * 8  # No evaluation twice: it went on from its checkpoint.
    wait_until(lambda: "report  " in files.resumed_log.read_text(), files.resumed_log.read_text)

"""Files that this user may not read are neither missing nor damaged: nothing is deleted, trained again or hidden.

Permissions do not stop root. If root runs the tests, the program runs without root's two capabilities to ignore them.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.doctor.machine import files_of_home, home_directory
from orchestrator.history.export_archive import export_home
from orchestrator.history.sweeps import Sweep
from orchestrator.home.checkpoints import Checkpoints
from orchestrator.home.directories import Home, SweepDirectory
from orchestrator.home.new_home import exchange_warning, make_home
from orchestrator.home.ownership import trust_home
from orchestrator.home.run_store import RunStore
from orchestrator.home.seals import flaw_of, seal
from orchestrator.site.pages import SweepPages
from orchestrator.system.errors import UserError
from tests.catalog.fabricated import write_sweep
from tests.cli.program import Ended, Program, line, process
from tests.sweep.sweeps import spec

CAPABILITIES = "-dac_override,-dac_read_search"
OBEYING = ["setpriv", f"--bounding-set={CAPABILITIES}", f"--inh-caps={CAPABILITIES}"] if os.getuid() == 0 else []
pytestmark = pytest.mark.skipif(bool(OBEYING) and shutil.which("setpriv") is None, reason="root needs setpriv")


@pytest.fixture(name="sweep")
def finished_sweep(tmp_path: Path) -> Sweep:
    """A sweep of eight runs."""
    return write_sweep(Home(tmp_path / "home"), spec(sizes=[8, 16], seeds=2))


def obeying(*words: object, home: Path) -> Ended:
    """Run the program such that it obeys permissions."""
    return process([*OBEYING, *line(*words), "--home", home], within_s=300)


@contextmanager
def closed(*paths: Path) -> Iterator[None]:
    """Take away all permissions during the block."""
    modes = [path.stat().st_mode for path in paths]
    for path in paths:
        path.chmod(0)
    try:
        yield
    finally:
        for path, mode in zip(paths, modes, strict=True):
            path.chmod(mode)


def content(home: Home) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in home.runs.rglob("*") if path.is_file()}


def hidden(home: Home, kind: str) -> list[Path]:
    """Return the paths to close for a kind of hidden runs."""
    runs = [home.runs / key for key in RunStore(home).stored_keys()]
    files = {"some runs": runs[:6], "every run": [home.runs], "one file": [run / "outcome.json" for run in runs[:6]]}
    return files[kind]


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "some runs",
        pytest.param("every run", marks=pytest.mark.night),
        pytest.param("one file", marks=pytest.mark.night),
    ],
)
def test_runs_that_cannot_be_read_are_said_and_kept(sweep: Sweep, kind: str, tmp_path: Path) -> None:
    home, before = sweep.files.home, content(sweep.files.home)
    paths = hidden(home, kind)
    (tmp_path / "space.yaml").write_text(sweep.spec.to_yaml())
    with closed(*paths):
        for words in (["explain"], ["status", sweep.id], ["report", sweep.id, "--output", tmp_path / "report.html"]):
            ended = obeying(*words, home=home.root)
            assert ended.code == 1
            assert "cannot be opened by this user" in ended.err
            assert any(str(path) in ended.err for path in paths)
            assert "No run has ended yet" not in ended.out
        ended = obeying("home", "export", tmp_path / "home.tar.gz", home=home.root)
        assert ended.code == 1
        assert "cannot be read" in ended.err or "permission denied" in ended.err
        assert not (tmp_path / "home.tar.gz").exists()
        if kind != "every run":
            assert "6 of 8 runs and 1 sweeps cannot be read, so nothing was exported" in ended.err
        for resume in (["--resume", sweep.id], []):
            ended = obeying("run", tmp_path / "space.yaml", "--engine=local", *resume, home=home.root)
            assert ended.code == 1
            assert "cannot be opened by this user" in ended.err
        listed = obeying("sweeps", home=home.root).succeeded()
        assert "cannot be opened by this user" in " ".join(listed.split())  # Lines are folded.
    assert content(home) == before
    assert obeying("explain", home=home.root).code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["sweep", pytest.param("sweeps", marks=pytest.mark.night), pytest.param("lock", marks=pytest.mark.night)]
)
def test_sweeps_that_cannot_be_read_are_not_missing(sweep: Sweep, kind: str, tmp_path: Path) -> None:
    files, home = sweep.files, sweep.files.home
    path = {"sweeps": home.root / "sweeps", "sweep": files.directory, "lock": files.directory / "driver.lock"}[kind]
    if kind == "lock":
        path.touch()
    with closed(path):
        for words in (["explain"], ["rm", files.id, "--yes"], ["home", "export", tmp_path / "home.tar.gz"]):
            ended = obeying(*words, home=home.root)
            assert ended.code == 1, (words, ended)
            assert str(path) in ended.err
            assert "no sweep" not in ended.err
            assert "this should not happen" not in ended.err
    assert len(RunStore(home).stored_keys()) == 8
    assert not (tmp_path / "home.tar.gz").exists()
    assert obeying("explain", home=home.root).code == 0


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EKEYEXPIRED, errno.ESTALE, errno.ETIMEDOUT])
def test_an_error_of_the_system_is_no_flaw(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "outcome.json").write_text("{}")
    seal(tmp_path)
    assert flaw_of(tmp_path) == ""

    def fails(path: Path, *arguments: object, **settings: object) -> int:
        raise OSError(number, os.strerror(number), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", fails)
        with pytest.raises(OSError, match=os.strerror(number)):
            flaw_of(tmp_path)
    (tmp_path / "outcome.json").write_text("{1")
    assert flaw_of(tmp_path) == "outcome.json does not match its checksum"


def test_checkpoints_that_cannot_be_read_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    with checkpoints.put("stack", [{"mix": "add"}]) as directory:
        (directory / "state").write_text("precious")

    def fails(path: str) -> list[str]:
        raise PermissionError(errno.EACCES, "denied", path)

    with monkeypatch.context() as patch:
        patch.setattr("os.listdir", fails)
        with pytest.raises(PermissionError):
            checkpoints.interrupted(dict)
    assert checkpoints.stacks() == ["stack"]


def test_the_page_shows_a_sweep_again_once_it_can_be_read(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = SweepPages(sweep.files.home)
    assert "finished</span>" in pages.index()

    def fails(directory: SweepDirectory) -> bool:
        raise PermissionError(errno.EACCES, "denied", str(directory.directory))

    with monkeypatch.context() as patch:
        patch.setattr(SweepDirectory, "is_driven", fails)
        page = pages.index()
        assert "unreadable</span>" in page
        assert "cannot be opened by this user" in page
    assert "finished</span>" in pages.index()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")
@pytest.mark.parametrize("command", ["run", "import"])
def test_a_home_that_another_user_has_put_there_is_not_used(command: str, run: Program, tmp_path: Path) -> None:
    """They create ``results`` in a directory such as ``/tmp``, and wait for somebody to start a sweep there."""
    write_sweep(Home(tmp_path / "own"), spec(sizes=[8], seeds=1))
    export_home(Home(tmp_path / "own"), tmp_path / "home.tar.gz")
    shared, planted = tmp_path / "shared", tmp_path / "shared" / "results"
    planted.mkdir(parents=True)
    shared.chmod(0o1777)
    planted.chmod(0o777)
    os.chown(planted, 65534, 65534)
    started = ["run", "add_vs_add_prod", "--profile=smoke", "--engine=local"]
    words = started if command == "run" else ["home", "import", str(tmp_path / "home.tar.gz")]
    refused = run(*words, "--home", planted)
    assert (refused.code, list(planted.iterdir())) == (2, [])
    assert "it belongs to another user" in refused.err


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")
def test_a_home_that_its_owner_shares_is_used_once_it_is_trusted(tmp_path: Path) -> None:
    """With a group, or below a folder of its owner."""
    shared, theirs = tmp_path / "shared", tmp_path / "theirs"
    for place in (shared, theirs):
        (place / "home").mkdir(parents=True)
        os.chown(place / "home", 65534, 0)
    shared.chmod(0o1777)
    (shared / "home").chmod(0o770)  # Group 0 is that of this process.
    for place in (shared, theirs):
        with pytest.raises(UserError, match="belongs to another user"):
            make_home(place / "home")
        assert list((place / "home").iterdir()) == []
        trust_home(place / "home")
        make_home(place / "home")


@pytest.mark.parametrize("command", ["run", "import", "doctor"])
def test_a_home_that_others_can_exchange_is_named(command: str, run: Program, tmp_path: Path) -> None:
    write_sweep(Home(tmp_path / "own"), spec(sizes=[8], seeds=1))
    export_home(Home(tmp_path / "own"), tmp_path / "home.tar.gz")
    home, place = tmp_path / "open" / "below" / "results", tmp_path / "open"
    place.mkdir()
    place.chmod(0o777)
    words = {
        "run": ["run", "add_vs_add_prod", "--profile=smoke", "--engine=local", "--record=jsonl"],
        "import": ["home", "import", str(tmp_path / "home.tar.gz")],
    }
    if command == "doctor":
        finding = home_directory(home)
        text = f"{finding.text}: {finding.todo}"
    else:
        done = run(*words[command], "--home", home)
        assert done.code == 0, done.err
        text = " ".join((done.out + done.err).split())
    assert f"everyone can write to {place}, so other users can replace {home}" in text
    assert f"chmod o-w {place}" in text


@pytest.mark.parametrize("name", ["a place", "Ann's $(touch marker)", "-R;"])
def test_advice_can_be_pasted_into_a_shell(name: str, run: Program, tmp_path: Path) -> None:
    place = tmp_path / name
    (place / "code").mkdir(parents=True)
    (place / "code" / "models.py").touch()
    place.chmod(0o777)
    write_sweep(Home(place / "home"), spec(sizes=[8], seeds=1))
    advice = [
        *re.findall(r"\((chmod .*?)\)(?:, or|$)", exchange_warning(place / "home")),
        files_of_home(place / "home").todo,
        *re.findall(r"\((chmod .*?)\), or", run("home", "trust", place / "code").refused()),
    ]
    assert [shlex.split(command)[2:] for command in advice] == [[str(place)]] * 4


@pytest.mark.parametrize("mode", [0o755, 0o1777, 0o775])
def test_a_home_that_others_cannot_exchange_is_not_named(
    mode: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    place.chmod(mode)
    make_home(place / "home")
    (place / "home").chmod(0o777)  # A home that its user shares with everybody.
    make_home(place / "home")
    assert caplog.text == ""
    place.chmod(0o777)
    make_home(place / "home")
    assert "everyone can write to" in caplog.text

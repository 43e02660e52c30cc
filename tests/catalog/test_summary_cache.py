"""A kept summary is the same as one that is computed now, or it is not believed."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from orchestrator.catalog import summary_cache
from orchestrator.catalog.reading import StoredSweep, read_known, read_sweep
from orchestrator.catalog.summary import Summary, summarize
from orchestrator.catalog.summary_cache import directory, find, forget, keep, read_summary
from orchestrator.history.journal import Answered, Ended, Journal, Stopped
from orchestrator.history.sweeps import UnreadableError
from orchestrator.home.directories import Home, SweepDirectory
from orchestrator.home.run_files import ProbeResult, write_result
from orchestrator.home.trusted_code import trust
from orchestrator.jobs.state import State
from orchestrator.site.pages import SweepPages
from tests.catalog.fabricated import failed, leave_stack, runs_of, write_sweep
from tests.cli.program import Program, imported, separate
from tests.sweep.sweeps import UNITS, interrupt_after, only_sweep, remembered, run_here, spec


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep summaries of sweeps that were written just now, in a cache of their own."""
    monkeypatch.setattr(summary_cache, "QUIET_NS", 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def files(home: Home) -> SweepDirectory:
    """A sweep that ended and whose summary is kept."""
    sweep = write_sweep(home, spec(sizes=[8, 64], seeds=2))
    assert isinstance(read_summary(home, sweep.id), Summary)
    assert find(sweep.files) is not None
    return sweep.files


def computed(files: SweepDirectory) -> Summary | str:
    """Return the summary of a sweep as it is on disk, or why it is unreadable."""
    stored = read_known(files.home, files.id)
    return str(stored) if isinstance(stored, UnreadableError) else summarize(stored)


def first_run(files: SweepDirectory) -> Path:
    return files.home.runs / remembered(files.home.root, files.id).ended[0].key


def kept_file() -> Path:
    [file] = directory().glob("*/*.json")
    return file


def test_a_kept_summary_is_read_in_place_of_the_sweep(files: SweepDirectory) -> None:
    expected = computed(files)
    assert read_summary(files.home, files.id, lambda: pytest.fail("the sweep was read")) == expected
    (files.directory / "report.html").write_text("x" * 1000)
    again = read_summary(files.home, files.id, lambda: pytest.fail("the sweep was read"))
    assert again == computed(files)
    assert again != expected, "the report has bytes, too"


def stop_a_mix(files: SweepDirectory) -> None:
    with Journal(files.journal) as journal:
        journal.append(Stopped("add+prod"))
        journal.append(Answered())


def change_the_question(files: SweepDirectory) -> None:
    files.spec.write_text(files.spec.read_text().replace("Does PROD help ADD?", "Does PROD hurt ADD?"))


def change_an_outcome(files: SweepDirectory) -> None:
    path = first_run(files) / "outcome.json"
    status = path.stat()
    text = path.read_text()
    path.write_text(text.replace('"finished"', '"diverged"'))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)


def change_a_checksum(files: SweepDirectory) -> None:
    path = first_run(files) / "contents.json"
    path.write_text(path.read_text().replace("1", "2"))


def remove_a_run(files: SweepDirectory) -> None:
    shutil.rmtree(first_run(files))


def probe_a_run(files: SweepDirectory) -> None:
    write_result(first_run(files), ProbeResult("mine", 1, {"a": 1.0}), {"b": np.ones(50)})


def probe_it_again(files: SweepDirectory) -> None:
    write_result(first_run(files), ProbeResult("mine", 1, {"a": 1.0, "c": 2.0}), {"b": np.ones(90)})


def damage_the_journal(files: SweepDirectory) -> None:
    files.journal.write_bytes(files.journal.read_bytes().replace(b'"ended"', b'"EnDED"', 1))


CHANGES = (
    *(stop_a_mix, change_the_question, change_an_outcome, change_a_checksum, remove_a_run, probe_a_run),
    damage_the_journal,
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_changed_sweep_is_read_again(files: SweepDirectory, change: Callable[[SweepDirectory], None]) -> None:
    before = computed(files)
    change(files)
    assert find(files) is None
    made = read_summary(files.home, files.id)
    assert made == computed(files) != before


def test_another_program_family_or_trust_reads_a_sweep_again(
    files: SweepDirectory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def is_kept_after(patch: Callable[[pytest.MonkeyPatch], object]) -> bool:
        with monkeypatch.context() as local:
            patch(local)
            return find(files) is not None

    assert is_kept_after(lambda local: None)
    assert not is_kept_after(lambda local: local.setattr(summary_cache, "_program", lambda: "another version"))
    family = str(Path(sys.modules["tests.families"].__file__ or "").resolve())
    state = summary_cache._state

    def changed(path: str) -> tuple[bytes, int]:
        return (b"edited\n", 0) if path == family else state(path)

    assert not is_kept_after(lambda local: local.setattr(summary_cache, "_state", changed))
    trust(tmp_path)
    assert find(files) is None


def test_what_changes_while_a_sweep_is_read_is_not_missed(home: Home) -> None:
    sweep = write_sweep(home, spec(sizes=[8, 64], seeds=2))

    def read() -> StoredSweep:
        stored = read_sweep(home, sweep.id)
        change_an_outcome(sweep.files)
        return stored

    assert isinstance(read_summary(home, sweep.id, read), Summary)
    assert find(sweep.files) is None
    assert find(sweep.files) != computed(sweep.files)


def test_only_whole_sweeps_that_ended_are_kept(home: Home) -> None:
    runs = runs_of(spec())[:4]
    interrupted = write_sweep(home, runs=runs[:2], answered=False)
    leave_stack(home, interrupted, runs[2:3], evaluations=3)
    broken = write_sweep(home, runs=runs, outcomes=dict.fromkeys(range(4), failed()), answered=False)
    damaged = write_sweep(home, spec(seed=50), runs=runs_of(spec(seed=50))[:4])
    remove_a_run(damaged.files)
    ended = write_sweep(home, spec(seed=90), runs=runs_of(spec(seed=90))[:4])
    for sweep in (interrupted, broken, damaged, ended):
        summary = read_summary(home, sweep.id)
        assert summary == computed(sweep.files)
        assert (find(sweep.files) is not None) == (sweep is ended)
    with ended.files.driving():
        assert find(ended.files) is None
        running = read_summary(home, ended.id)
        assert isinstance(running, Summary)
        assert running.is_running
    assert find(ended.files) is not None


def with_a_flipped_bit(content: bytes) -> bytes:
    return content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(with_a_flipped_bit(file.read_bytes())),
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(file.read_bytes()[:100]),
        lambda file: file.write_text(f"{json.dumps({})}\n[]"),
        lambda file: file.chmod(0o666),
        lambda file: file.rename(file.with_name("elsewhere")) and file.symlink_to("elsewhere"),
    ],
    ids=["bit", "empty", "cut", "other", "writable", "link"],
)
def test_a_damaged_copy_is_made_again(files: SweepDirectory, damage: Callable[[Path], object]) -> None:
    damage(kept_file())
    assert find(files) is None
    assert read_summary(files.home, files.id) == computed(files)
    assert find(files) is not None


def test_a_copy_that_others_could_exchange_is_not_used(files: SweepDirectory) -> None:
    shared = kept_file().parents[1]
    shared.chmod(0o777)
    assert find(files) is None
    assert read_summary(files.home, files.id) == computed(files)
    shared.chmod(0o700)
    assert find(files) is not None


def test_a_copy_is_private(files: SweepDirectory) -> None:
    file = kept_file()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert directory().stat().st_mode & 0o777 == 0o700
    assert os.listdir(file.parent) == [file.name]


def test_a_home_from_elsewhere_brings_no_summary(files: SweepDirectory, tmp_path: Path) -> None:
    """Even if its author could write into the cache of this user: files that were copied have another number."""
    twin = Home(tmp_path / "twin")
    shutil.copytree(files.home.root, twin.root)
    copied = twin.sweep(files.id)
    assert find(copied) is None
    target = summary_cache._place(copied)
    target.parent.mkdir(parents=True)
    shutil.copy(summary_cache._place(files), target)
    assert find(copied) is None
    inside = files.home.root.rglob("*")
    assert not [path for path in inside if "summar" in path.name], "nothing is kept in a home"


def test_a_cache_that_cannot_be_written_does_not_matter(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    sweep = write_sweep(home, spec(sizes=[8], seeds=1))
    assert read_summary(home, sweep.id) == computed(sweep.files)
    assert find(sweep.files) is None


def test_rm_deletes_the_copy(run: Program, home: Home) -> None:
    kept, other = (write_sweep(home, spec(sizes=[8], seeds=1, seed=seed)) for seed in (0, 5))
    for sweep in (kept, other):
        read_summary(home, sweep.id)
    assert len(list(directory().rglob("*.json"))) == 2
    run("rm", kept.id, "--yes", "--home", home.root).succeeded()
    assert len(list(directory().rglob("*.json"))) == 1
    run("rm", other.id, "--yes", "--home", home.root).succeeded()
    assert list(directory().iterdir()) == []


def test_listings_are_the_same_with_and_without_copies(
    run: Program, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in (0, 5):
        write_sweep(home, spec(sizes=[8, 24, 64], seeds=2, seed=seed))
    write_sweep(home, spec(seed=90), runs=runs_of(spec(seed=90))[:4], answered=False)
    ids = home.sweep_ids()

    def shown() -> list[str]:
        commands = (["sweeps"], ["sweeps", "--json"], ["status", ids[1]], ["status", ids[1], "--runs"], ["status"])
        return [*(run(*words, "--home", home.root).succeeded() for words in commands), SweepPages(home).index()]

    first, again = shown(), shown()
    assert len(list(directory().rglob("*.json"))) == 2
    monkeypatch.setattr(summary_cache, "find", lambda files: None)
    assert first == again == shown()
    status = json.loads(run("status", ids[1], "--json", "--home", home.root).succeeded())
    assert [mix["done"] for mix in status["mixes"]] == [6, 6]
    assert len(status["runs"]) == 12


def test_any_order_of_changes_gives_what_is_on_disk(files: SweepDirectory) -> None:
    rng = np.random.default_rng(3)
    run = remembered(files.home.root, files.id).ended[-1]

    def train_again() -> None:
        with Journal(files.journal) as journal:
            journal.append(Ended(run.key, run.request))

    def nothing() -> None:
        pass

    changes = (
        *(nothing, nothing, train_again, lambda: probe_a_run(files), lambda: probe_it_again(files)),
        *(lambda: stop_a_mix(files), lambda: change_the_question(files), lambda: change_an_outcome(files)),
    )
    times_kept = 0
    for _ in range(25):
        changes[rng.integers(len(changes))]()
        times_kept += find(files) is not None
        assert read_summary(files.home, files.id) == computed(files)
    assert times_kept >= 3


def test_a_summary_of_an_unknown_time_is_not_kept(files: SweepDirectory) -> None:
    stored = replace(read_sweep(files.home, files.id), read_ns=0)
    summary_cache.forget(files)
    assert keep(stored) == computed(files)
    assert find(files) is None


def test_a_kept_summary_needs_no_scipy(files: SweepDirectory) -> None:
    code = (
        "from orchestrator.cli.main import main\n"
        f"try: main(['status', '--home', {str(files.home.root)!r}])\nexcept SystemExit: pass"
    )
    assert imported(code, "scipy", "matplotlib", "mlflow", "torch") == []
    kept_file().unlink()
    assert imported(code, "scipy", "matplotlib", "mlflow", "torch") == ["scipy"]


SMALL = UNITS.replace("sizes: [8, 16]", "sizes: [8, 64]") + "search: {method: grid}\n"


def test_the_driver_keeps_the_summary_of_a_sweep_that_it_ends(tmp_path: Path) -> None:
    space = tmp_path / "small.yaml"
    space.write_text(SMALL)
    separate("run", space, "--home", tmp_path / "home", "--engine", "local", "--record", "jsonl").succeeded()
    files = only_sweep(tmp_path / "home")
    expected = computed(files)
    assert find(files) == expected
    assert isinstance(expected, Summary)
    assert expected.state == State.FINISHED.value
    assert expected.runs == 2


def test_a_caller_from_python_waits_for_nothing_and_an_interrupted_sweep_leaves_no_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = spec(sizes=[8, 64], seeds=1)
    monkeypatch.setattr(summary_cache, "QUIET_NS", 10**12)
    run_here(small, tmp_path / "recent", record="jsonl")
    assert find(only_sweep(tmp_path / "recent")) is None
    monkeypatch.setattr(summary_cache, "QUIET_NS", 0)
    monkeypatch.setattr(summary_cache, "MARGIN_NS", 0)
    run_here(small, tmp_path / "quiet", record="jsonl")
    assert find(only_sweep(tmp_path / "quiet")) == computed(only_sweep(tmp_path / "quiet"))
    interrupt_after(2, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        run_here(small, tmp_path / "stopped", record="jsonl")
    assert find(only_sweep(tmp_path / "stopped")) is None


def test_a_user_without_a_home_directory_has_no_copies(
    files: SweepDirectory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    assert find(files) is None
    with caplog.at_level("INFO"):
        assert read_summary(files.home, files.id) == computed(files)
    assert "set HOME or XDG_CACHE_HOME" in caplog.text
    forget(files)

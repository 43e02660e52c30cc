"""Links, keys, pipes and sizes in homes and archives that another user made."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import stat
import tarfile
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from types import ModuleType

import pytest

from orchestrator.catalog.reading import StoredSweep, read_known, read_sweep
from orchestrator.doctor.machine import Grade, files_of_home
from orchestrator.history import foreign_time, known_runs
from orchestrator.history.earlier_looks import count_earlier_looks
from orchestrator.history.import_archive import import_home
from orchestrator.history.journal import CHECKSUM, Answered, Ended, Journal, read_journal
from orchestrator.history.known_runs import recall_sweep
from orchestrator.history.resume import find_unfinished
from orchestrator.history.sweeps import REPORT_FILE, create_sweep, load_sweep
from orchestrator.home import foreign_database
from orchestrator.home.checkpoints import LEARNER_DIRECTORY, PROGRESS, Checkpoints, StackNotes, read_progress
from orchestrator.home.directories import DATABASE, Home, last_written
from orchestrator.home.foreign_database import open_database, schema_of
from orchestrator.home.inspection import foreign_things
from orchestrator.home.run_files import OUTCOME, read_outcome, read_results, read_run
from orchestrator.home.run_store import RunStore
from orchestrator.home.seals import CONTENTS, flaw_of
from orchestrator.record.inspection import foreign_records
from orchestrator.record.mlflow_store import make_database
from orchestrator.search.base import Request
from orchestrator.site.pages import SweepPages
from orchestrator.space import strict_yaml
from orchestrator.system import reading_time
from orchestrator.system.errors import UserError
from orchestrator.system.printing import clean
from orchestrator.system.reading_time import TooSlowError, check_reading_time, reading_limited
from tests.catalog.fabricated import failed, write_sweep
from tests.cli.program import Program, command
from tests.home.hostile import DEEP, archive_of, signed
from tests.home.test_hostile import in_time, told
from tests.sweep.sweeps import spec
from trainables.base import Evaluation, Outcome


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with one sweep, next to a directory that nothing may touch."""
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "file").write_text("mine")
    result = Home(tmp_path / "home")
    write_sweep(result, spec(sizes=[8, 64], seeds=1))
    return result


@pytest.fixture
def victim(home: Home) -> Path:
    return home.root.parent / "victim" / "file"


def add_line(journal: Path, **values: object) -> None:
    with journal.open("ab") as file:
        file.write(signed(values) + b"\n")


@pytest.mark.parametrize("key", ["../../../victim", "/victim", "..", ".", "", "a/b", "a\nb", "x" * 500, 5, None, ["k"]])
def test_a_key_that_leads_elsewhere_damages_only_its_line(key: object, home: Home) -> None:
    [sweep_id] = home.sweep_ids()
    journal, request = home.sweep(sweep_id).journal, {"mix": "add", "size": 8, "seed": 0}
    add_line(journal, kind="ended", key=key, request=request, reused_from="", at="2026-01-01T00:00:00+00:00")
    [*_, last] = read_journal(journal)
    assert isinstance(last, str)
    assert "is not a key" in last
    assert (home.root.parent / "victim" / "file").read_text() == "mine"
    with pytest.raises(ValueError, match="is not a key"):
        RunStore(home).delete(key)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "values",
    [
        {"kind": "answered", "at": 5},
        {"kind": "answered", "at": "2026-01-01"},
        {"kind": "begun", "created": 5, "environment": {}, "schema": 2},
        {"kind": "begun", "created": "2026-01-01T00:00:00+00:00", "environment": {"versions": []}, "schema": 2},
        {"kind": "begun", "created": "2026-01-01T00:00:00+00:00", "environment": {"git": {"commit": "a"}}, "schema": 2},
        {"kind": "asked", "blocks": [["add", "add", "8", 8, 0]], "at": "2026-01-01T00:00:00+00:00"},
        {"kind": "stopped", "mix": ["add"], "at": "2026-01-01T00:00:00+00:00"},
        {"kind": "asked", "blocks": DEEP, "at": "2026-01-01T00:00:00+00:00"},
        {"kind": []},
        {},
    ],
)
def test_wrong_types_under_a_good_checksum_damage_only_their_line(values: dict[str, object], home: Home) -> None:
    [sweep_id] = home.sweep_ids()
    journal = home.sweep(sweep_id).journal
    before = list(read_journal(journal))
    with journal.open("ab") as file:
        file.write((signed(values) if values else b'{},"crc":"%08x"}' % zlib.crc32(b"{}")) + b"\n")
    *others, last = read_journal(journal)
    assert others == before
    assert isinstance(last, str)
    assert "is damaged" in last


@pytest.mark.parametrize(
    "changes", [{"created": 5}, {"created": ["2026"]}, {"environment": []}, {"environment": {"versions": [1]}}]
)
def test_wrong_types_in_the_first_line_leave_the_other_sweeps_and_it_can_be_removed(
    changes: dict[str, object], home: Home
) -> None:
    [whole] = home.sweep_ids()
    other = write_sweep(home, spec(name="other"))
    first, *lines = other.files.journal.read_bytes().splitlines(keepends=True)
    values = json.loads(first.rpartition(CHECKSUM)[0] + b"}")
    other.files.journal.write_bytes(signed(values | changes) + b"\n" + b"".join(lines))
    told("home", "trust", home.root)
    listed = told("sweeps", "--home", home.root)
    assert {whole, other.id} <= set(listed.split())
    assert f"{other.files.journal.name}, line 1, is damaged" in listed
    with in_time():
        assert {whole, other.id} <= set(re.findall(r'id="([\w-]+)"', SweepPages(home).index()))
    recorded = command("sync", "--home", home.root)
    assert (recorded.code, f"{whole}: " in recorded.out) == (0, True)
    told("rm", other.id, "--yes", "--home", home.root)
    assert home.sweep_ids() == [whole]


@pytest.mark.parametrize("missing", ["add", "add+prod"])
def test_a_mix_missing_in_one_specification_leaves_the_others_and_can_be_removed(missing: str, home: Home) -> None:
    other = write_sweep(home, spec(name="other"))
    text = other.files.spec.read_text()
    kept = "add+prod" if missing == "add" else "add"
    other.files.spec.write_text(
        text.replace("- add\n- add+prod\n", f"- {kept}\n") if "- add\n- add+prod\n" in text else ""
    )
    if not other.files.spec.read_text():
        other.files.spec.write_text(text.replace("mixes: [add, add+prod]", f"mixes: [{kept}]"))
    assert other.files.spec.read_text() != text
    listed = told("sweeps", "--home", home.root)
    assert listed.count("logistic-") >= 1
    assert "KeyError" in listed
    assert "does not fit the sweep" in listed
    for words in (("status", other.id), ("explain", other.id), ("report", other.id)):
        told(*words, "--home", home.root)
    assert command("rm", other.id, "--yes", "--home", home.root).code == 0
    assert len(home.sweep_ids()) == 1


@pytest.mark.parametrize("write", ["report", "figure"])
def test_a_link_in_a_sweep_is_replaced_and_its_target_kept(write: str, home: Home, victim: Path, run: Program) -> None:
    [sweep_id] = home.sweep_ids()
    target = home.sweep(sweep_id).directory / (REPORT_FILE if write == "report" else "figure.pdf")
    target.symlink_to(victim)
    run(write, sweep_id, "--home", home.root).succeeded()
    assert victim.read_text() == "mine"
    assert not target.is_symlink()
    assert target.stat().st_size > 1000
    linked = home.root.parent / f"link{target.suffix}"
    linked.symlink_to(home.root.parent / f"kept{target.suffix}")
    run(write, sweep_id, "--home", home.root, "--output", linked).succeeded()
    assert linked.is_symlink()  # A link that the user names is followed.


@pytest.mark.parametrize("place", ["sweep", "run"])
def test_a_file_of_holes_is_not_read(place: str, home: Home, tmp_path: Path, run: Program) -> None:
    """A file of a terabyte takes no room on the disk if it is empty."""
    [sweep_id, *_], [key, *_] = home.sweep_ids(), RunStore(home).stored_keys()
    directory = home.sweep(sweep_id).directory if place == "sweep" else home.runs / key
    with (directory / "big.bin").open("wb") as file:
        file.truncate(1 << 40)
    message = run("home", "export", tmp_path / "home.tar.gz", "--home", home.root).refused()
    assert f"{place} {sweep_id if place == 'sweep' else key} cannot be exported: big.bin has" in message
    assert not (tmp_path / "home.tar.gz").exists()
    sums = {"outcome.json": 0, "big.bin": 0}
    (directory / "contents.json").write_text(json.dumps(sums))
    assert "too many" in flaw_of(directory, "big.bin")
    assert any("almost all of them empty" in thing for thing in foreign_things(home))


@pytest.mark.parametrize("name", ["leaked.txt", "checkpoints"])
def test_a_link_is_not_exported_and_the_archive_is_private(name: str, home: Home, victim: Path, tmp_path: Path) -> None:
    [sweep_id] = home.sweep_ids()
    (home.sweep(sweep_id).directory / name).symlink_to(victim.parent if name == "checkpoints" else victim)
    command("home", "export", tmp_path / "home.tar.gz", "--home", home.root).succeeded()
    with tarfile.open(tmp_path / "home.tar.gz") as archive:
        assert not [member for member in archive.getnames() if name in member]
    assert stat.S_IMODE((tmp_path / "home.tar.gz").stat().st_mode) == 0o600
    assert any("is a link" in thing for thing in foreign_things(home))


@pytest.mark.parametrize("part", ["run", "probes", "sweep"])
def test_a_linked_directory_is_not_used(part: str, home: Home, victim: Path) -> None:
    [sweep_id] = home.sweep_ids()
    store = RunStore(home)
    [key, *others] = store.stored_keys()
    path = {"run": store.directory(key), "probes": store.directory(key) / "probes"}.get(part)
    path = path or home.sweep(sweep_id).directory
    if path.exists():
        path.rename(victim.parent / "moved")
    path.symlink_to(victim.parent / "moved" if part != "probes" else victim.parent)
    if part == "run":
        assert store.stored_keys() == others
    elif part == "sweep":
        assert home.sweep_ids() == []
    else:
        assert read_results(store.directory(key)) == {}
    told("sweeps", "--home", home.root)
    assert any("is a link" in thing for thing in foreign_things(home))


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def device(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("kind", [pipe, device])
@pytest.mark.parametrize(
    "name", ["journal.jsonl", "space.yaml", "stop.jsonl", "driver.lock", REPORT_FILE, "answer.txt"]
)
def test_a_pipe_or_device_in_a_sweep_does_not_block(kind: Callable[[Path], None], name: str, home: Home) -> None:
    [sweep_id] = home.sweep_ids()
    kind(home.sweep(sweep_id).directory / name)
    for words in (("sweeps",), ("status", sweep_id), ("home", "export", home.root.parent / "x.tar.gz")):
        told(*words, "--home", home.root)
    assert any("a link" in thing or "a pipe" in thing for thing in foreign_things(home))
    with in_time():
        command("rm", sweep_id, "--yes", "--home", home.root)


@pytest.mark.parametrize(
    "name", ["/dev/zero", "../../../victim/file", "probes/../x", "a\x1b[2J", "pipe", "x/" * 50 + "x"]
)
def test_a_list_of_contents_that_leads_elsewhere_is_a_flaw(name: str, home: Home) -> None:
    store = RunStore(home)
    [key, *_] = store.stored_keys()
    directory = store.directory(key)
    os.mkfifo(directory / "pipe")
    (directory / CONTENTS).write_text(json.dumps({OUTCOME: 0, name: 0}))
    with in_time():
        assert flaw_of(directory)
        assert isinstance(read_run(directory, whole=True), str)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[]", "5", '"x"', '{"outcome.json": "x"}'])
def test_nested_and_other_json_is_a_flaw(text: str, home: Home) -> None:
    store = RunStore(home)
    [key, *_] = store.stored_keys()
    (store.directory(key) / CONTENTS).write_text(text)
    assert isinstance(read_run(store.directory(key), whole=True), str)


def test_json_with_millions_of_values_is_not_parsed(home: Home) -> None:
    """A list takes thirty times the memory of its text."""
    store = RunStore(home)
    [key, *_] = store.stored_keys()
    values = "[[[[[[[[[[]]]]]]]]]]," * 1_500_000
    (store.directory(key) / OUTCOME).write_text(f'{{"added": [{values}0]}}')
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="it has 16,500,002 values, too many"):
            read_outcome(store.directory(key))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * len(values)


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        (
            (reading_time, "LONGEST_READING_S"),
            "reading what others may have written took more than -1 s",
        ),
        ((foreign_time, "LONGEST_S"), "it was not read, because sweeps of others before it took more than -1 s"),
    ],
)
def test_reading_a_home_of_someone_else_ends_in_time(
    limit: tuple[ModuleType, str], why: str, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its author may have made it endless. A home of one's own is read whole."""
    told("home", "trust", home.root)
    monkeypatch.setattr(*limit, -1.0)
    assert why not in " ".join(told("sweeps", "--home", home.root).split())
    home.root.rename(moved := home.root.with_name("moved"))
    (moved / ".id").write_text("0" * 32)
    assert why in " ".join(told("sweeps", "--home", moved).split())
    one = command("status", "--home", moved)
    is_limited = limit[0] is reading_time
    assert (one.code, why in " ".join(one.err.split())) == (int(is_limited), is_limited)
    assert why in " ".join(SweepPages(Home(moved)).index().split())


def test_an_imported_sweep_is_not_read_for_ever(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    [sweep_id] = home.sweep_ids()
    told("home", "trust", home.root)
    monkeypatch.setattr(reading_time, "LONGEST_READING_S", -1.0)
    assert command("status", "--home", home.root).code == 0
    home.sweep(sweep_id).imported.touch()
    assert "took more than -1 s" in " ".join(command("status", "--home", home.root).err.split())
    assert "took more than -1 s" in " ".join(told("sweeps", "--home", home.root).split())


def test_a_run_that_many_lines_name_is_read_once(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    [sweep_id] = home.sweep_ids()
    [key, *_] = RunStore(home).stored_keys()
    for seed in range(50):
        request = {"mix": "add", "size": 8, "seed": seed}
        add_line(
            home.sweep(sweep_id).journal,
            kind="ended",
            key=key,
            request=request,
            reused_from="",
            at="2026-01-01T00:00:00+00:00",
        )
    read: list[Path] = []

    def reads(directory: Path) -> Outcome | str:
        read.append(directory)
        return read_run(directory)

    monkeypatch.setattr(known_runs, "read_run", reads)
    recall_sweep(load_sweep(home, sweep_id))
    assert len(read) == len(set(read)) == 4


def test_a_run_of_an_imported_sweep_answers_few_requests(home: Home) -> None:
    [sweep_id] = home.sweep_ids()
    sweep = load_sweep(home, sweep_id)
    key = next(run.key for run in recall_sweep(sweep).ended if run.request.mix == "add")
    with Journal(sweep.files.journal) as journal:
        for seed in range(1, 5):
            journal.append(Ended(key, Request("add", 8, seed)))

    def answered() -> int:
        return sum(run.key == key for run in recall_sweep(sweep).ended)

    many = answered()
    sweep.files.imported.touch()
    assert (many, answered()) == (5, 2)
    assert any("it answers more than 2 requests" in message for message in recall_sweep(sweep).damaged)


def test_only_a_failed_run_has_its_outcome_in_the_journal(home: Home) -> None:
    [sweep_id] = home.sweep_ids()
    journal = home.sweep(sweep_id).journal
    values = {"key": "a" * 16, "request": {"mix": "add", "size": 8, "seed": 0}, "reused_from": ""}
    outcome = {"status": "finished", "steps": 1, "accuracy": {"add": 1.0}, "floor": {"add": 0.0}}
    add_line(journal, kind="ended", outcome=outcome, at="2026-01-01T00:00:00+00:00", **values)
    *_, last = read_journal(journal)
    assert "only a failed run has its outcome in the journal" in str(last)


def test_imported_sweeps_that_take_too_long_leave_the_own_sweeps_listed(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = write_sweep(home, spec(name="own", sizes=[8, 64], seeds=1))
    [imported] = [home.sweep(sweep_id) for sweep_id in home.sweep_ids() if sweep_id != own.id]
    imported.imported.touch()
    told("home", "trust", home.root)
    monkeypatch.setattr(foreign_time, "LONGEST_S", -1.0)
    rows = {row["id"]: row["state"] for row in json.loads(told("sweeps", "--json", "--home", home.root))}
    assert rows == {own.id: "finished", imported.id: "unreadable"}


def test_imported_sweeps_that_take_too_long_are_not_searched_for_a_run_or_recorded(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = write_sweep(home, spec(name="own", sizes=[8, 64], seeds=1))
    theirs = write_sweep(home, spec(name="theirs", sizes=[16, 32], seeds=1))
    for sweep_id in set(home.sweep_ids()) - {own.id}:
        home.sweep(sweep_id).imported.touch()
    told("home", "trust", home.root)
    own_key, their_key = (read_sweep(home, sweep.id).runs[0].key for sweep in (own, theirs))
    monkeypatch.setattr(foreign_time, "LONGEST_S", -1.0)
    assert own_key in told("logs", own_key, "--home", home.root)
    lost = command("logs", their_key, "--home", home.root)
    assert lost.code == 2
    text = f"{home.root} has no run '{their_key}' in the sweeps that could be read (2 could not)"
    assert text in " ".join(lost.err.split())
    recorded = command("sync", "--home", home.root)
    assert (recorded.code, own.id in recorded.out) == (1, True)
    assert "2 of 3 sweeps cannot be recorded" in recorded.err
    assert "sweeps of others before it took more than -1 s" in " ".join(recorded.err.split())


def test_the_answer_of_an_imported_sweep_is_computed_in_time(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    [sweep_id] = home.sweep_ids()
    monkeypatch.setattr(reading_time, "LONGEST_READING_S", -1.0)
    told("home", "trust", home.root)
    assert read_sweep(home, sweep_id).answer.mixes
    home.sweep(sweep_id).imported.touch()
    monkeypatch.setattr(reading_time, "LONGEST_READING_S", 60.0)
    stored = read_known(home, sweep_id, answered=False)
    assert isinstance(stored, StoredSweep)
    monkeypatch.setattr(reading_time, "LONGEST_READING_S", -1.0)
    with pytest.raises(TooSlowError, match="took more than -1 s"):
        _ = stored.answer
    with reading_limited(True), reading_limited(False), pytest.raises(TooSlowError):
        check_reading_time()


def test_imported_sweeps_that_take_too_long_are_not_resumed_compared_or_counted(
    home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own = write_sweep(home, spec(), answered=False)
    theirs = [write_sweep(home, spec(), answered=False) for _ in range(2)]
    for sweep in theirs:
        sweep.files.imported.touch()
    told("home", "trust", home.root)
    caplog.set_level("INFO")
    monkeypatch.setattr(foreign_time, "LONGEST_S", -1.0)
    assert find_unfinished(own.spec, home).id == own.id
    own.files.imported.touch()
    with pytest.raises(UserError, match="no unfinished sweep of logistic"):
        find_unfinished(own.spec, home)
    newest_first = [sweep_id for sweep_id in home.sweep_ids() if sweep_id.startswith("logistic-")]
    assert caplog.messages[-1] == f"skipped: {', '.join(newest_first[:3])}. {foreign_time.NOT_READ}"
    compared = command("compare", *(sweep.id for sweep in theirs), "--home", home.root)
    assert (compared.code, compared.out) == (1, "")
    assert "sweeps of others before it took more than -1 s" in " ".join(compared.err.split())
    count_earlier_looks(own.spec, home)
    assert caplog.messages[-1].startswith("Analyses of these runs by ")
    assert caplog.messages[-1].endswith(f"are not counted. {foreign_time.NOT_READ}")


def test_a_search_space_of_thousands_of_values_is_not_parsed() -> None:
    with in_time(), pytest.raises(UserError, match=r"x.yaml has about 120,00. values; a search space may have 50,000"):
        strict_yaml.read("junk: [" + "1," * 119_999 + "1]", "x.yaml")
    assert len(strict_yaml.read("sizes: [" + "1," * 49_000 + "1]", "x.yaml").data["sizes"]) == 49_001


@pytest.mark.parametrize("end", ["\r", "\x85", "\u2028", "\u2029"])
def test_every_end_of_a_line_in_yaml_is_counted(end: str) -> None:
    with in_time(), pytest.raises(UserError, match=r"x.yaml has about 60,00. values; a search space may have 50,000"):
        strict_yaml.read(f"junk:{end}" + f"-{end}" * 60_000, "x.yaml")


EMPTY = '""'


@pytest.mark.parametrize("tag", ["int", "float", "bool", "timestamp", "null", "binary", "set", "omap", "seq", "map"])
@pytest.mark.parametrize("text", ["", "-", ":", ".", "1:" * 400 + "1", "[a]", "{a: b}"])
def test_a_tag_that_does_not_fit_its_value_is_a_mistake_of_the_file(tag: str, text: str) -> None:
    with in_time(), suppress(UserError):
        strict_yaml.read(f"question: !!{tag} {text or EMPTY}", "x.yaml")


RUN = "runs/0123456789abcdef/"
SPARSE = {
    "map": {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(1 << 50), "GNU.sparse.numblocks": "0"},
    "offsets": {"GNU.sparse.size": str(1 << 50), "GNU.sparse.numblocks": "0"},
    "map in the file": {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "0"},
}
"""The three ways in which headers describe a file of few bytes that stands for a petabyte. Its map may be longer than
memory."""


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (
            lambda: archive_of([(f"{RUN}zeros", bytes(300 << 20), tarfile.REGTYPE)]),
            "bytes of content, implausibly many",
        ),
        (
            lambda: archive_of(
                [(f"runs/{run:016x}/outcome.json", b"0," * 700_000, tarfile.REGTYPE) for run in range(3)]
            ),
            "its runs have more than 2,0..,... values",
        ),
        (
            lambda: archive_of([("sweeps/x/journal.jsonl", b"0," * 2_100_000, tarfile.REGTYPE)]),
            "its runs have more than 2,0..,... values",
        ),
        (
            lambda: archive_of(
                [(f"sweeps/x{sweep}/space.yaml", b"1," * 11_000, tarfile.REGTYPE) for sweep in range(10)]
            ),
            "its runs have more than 2,0..,... values",
        ),
        (
            lambda: archive_of(
                [(f"sweeps/x{sweep}/space.yaml", b"a:\r" + b"-\r" * 11_000, tarfile.REGTYPE) for sweep in range(10)]
            ),
            "its runs have more than 2,0..,... values",
        ),
        (
            lambda: archive_of([(f"sweeps/s{number}/a", b"", tarfile.REGTYPE) for number in range(17_000)]),
            "bytes of content, implausibly many",
        ),
        (lambda: archive_of([(f"{RUN}x", b"", tarfile.FIFOTYPE)]), "not a plain file"),
        (lambda: archive_of([(f"{RUN}x", b"", tarfile.LNKTYPE)]), "not a plain file"),
        (
            lambda: archive_of([("sweeps/x/tune/stack/error.pkl", b"", tarfile.REGTYPE)]),
            "not a file of a run or a sweep",
        ),
        (lambda: archive_of([(f"{RUN}{'d/' * 30}x", b"", tarfile.REGTYPE)]), "not a file of a run or a sweep"),
        (lambda: archive_of([(f"{RUN}x", b"", tarfile.REGTYPE)] * 2), "twice"),
        (
            lambda: archive_of([(f"sweeps/x/checkpoints/a/{name}", b"", tarfile.REGTYPE) for name in ("m", "m/b")]),
            "as a file and as a directory",
        ),
        (lambda: pax(70_000), "header of"),
        (lambda: headers(2_000, 4_000, files=13_000), "bytes of content, implausibly many"),
        (lambda: headers(1, 20, kind=tarfile.XGLTYPE), "not a plain file"),
        (lambda: sparse_of("map"), "a sparse file"),
        (lambda: sparse_of("offsets"), "a sparse file"),
        (lambda: sparse_of("map in the file"), "a sparse file"),
    ],
)
def test_an_archive_beyond_a_limit_is_refused_before_anything_is_written(
    content: Callable[[], bytes], why: str, tmp_path: Path
) -> None:
    (tmp_path / "x.tar.gz").write_bytes(content())
    with in_time(), pytest.raises(UserError, match=why):
        import_home(Home(tmp_path / "new"), tmp_path / "x.tar.gz", pytest.fail)
    assert not (tmp_path / "new").exists()


def pax(size: int) -> bytes:
    """Return an archive whose first member has an extended header of this size."""
    import gzip
    import io

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo(f"{RUN}x")
        member.pax_headers = {"comment": "x" * size}
        archive.addfile(member)
    return gzip.compress(buffer.getvalue())


def headers(number: int, size: int, *, files: int = 1, kind: bytes = tarfile.XHDTYPE) -> bytes:
    """Return an archive of empty files. The first ``number`` files have an extended header of this kind and size."""
    import gzip
    import io

    record = f"{size} comment={'x' * (size - len(f'{size} comment=') - 1)}\n".encode()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for file in range(files):
            if file < number:
                header = tarfile.TarInfo("header")
                header.type, header.size = kind, size
                archive.addfile(header, io.BytesIO(record))
            archive.addfile(tarfile.TarInfo(f"{RUN}{file}"))
    return gzip.compress(buffer.getvalue())


def sparse_of(kind: str) -> bytes:
    import gzip
    import io

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo(f"{RUN}x")
        member.pax_headers = SPARSE[kind]
        archive.addfile(member)
    return gzip.compress(buffer.getvalue())


@pytest.mark.parametrize("place", ["question", "profile", "error"])
def test_no_control_characters_reach_the_terminal(place: str, home: Home) -> None:
    evil = "\x1b]52;c;ZXZpbA==\x07\x9b2J\u202eevil"
    values = {"question": {"question": evil}, "profile": {"profile": evil}}.get(place, {})
    outcomes = {0: failed(f"Error\n{evil}")} if place == "error" else {}
    sweep = write_sweep(home, spec(name="evil", sizes=[8, 64], seeds=1, **values), outcomes=outcomes)
    key = next(iter(RunStore(home, sweep.id).own_keys()), "")
    shown = ""
    for words in (("sweeps",), ("status", sweep.id, "--runs"), ("explain", sweep.id), ("report", sweep.id)):
        shown += told(*words, "--home", home.root)
    shown += told("logs", key, "--home", home.root) if key else ""
    shown += told("logs", failed_key(sweep.files.journal), "--home", home.root) if place == "error" else ""
    assert "\\x1b]52" in shown or "x1b]52" in shown
    assert clean(evil) == "\\x1b]52;c;ZXZpbA==\\x07\\x9b2J\\u202eevil"
    assert clean("a\tb\nü, 平, \ud800") == "a\tb\nü, 平, \\ud800"


def failed_key(journal: Path) -> str:
    lines = (json.loads(line.rpartition(b',"crc"')[0] + b"}") for line in journal.read_bytes().splitlines())
    return next(str(values["key"]) for values in lines if "outcome" in values)


def test_no_control_characters_of_a_traceback_reach_the_terminal(run: Program) -> None:
    err = run("home", "import", "a\x1b]52;c;eA==\x07.tar.gz", "--debug").err
    assert "Traceback" in err
    assert "\\x1b]52;c;eA==" in err
    assert not {"\x1b", "\x07"}.intersection(err)


def test_the_newest_sweep_is_the_last_written_and_none_is_from_the_future(home: Home) -> None:
    [first] = home.sweep_ids()
    second = write_sweep(home, spec(name="second"))
    future = home.sweep(second.id).directory.with_name("second-20991231-000000-0000")
    second.files.directory.rename(future)
    assert home.sweep_ids() == [future.name, first]
    os.utime(future / "journal.jsonl", (0, 0))
    assert last_written(future / "journal.jsonl") == "1970-01-01T00:00:00+00:00"
    assert home.sweep_ids() == [first, future.name]
    with Journal(home.sweep(first).journal) as journal:
        journal.append(Answered("2999-01-01T00:00:00+00:00"))
    os.utime(future / "journal.jsonl", None)
    assert last_written(home.sweep(first).journal) < "2999"


def test_files_next_to_checkpoints_are_left_alone(tmp_path: Path) -> None:
    for name in ("notes.txt", "stack.x", "stack.1.bak", "stack.99999999999999999999"):
        (tmp_path / name).write_text("mine")
    (tmp_path / "stack.7").write_text("a file")
    with Checkpoints(tmp_path).put("stack", []):
        pass
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.stacks() == ["stack"]
    assert str(checkpoints.newest("stack")).endswith("stack.1")
    checkpoints.drop("stack")
    assert len(list(tmp_path.iterdir())) == 5


def test_an_interrupted_deletion_is_finished_by_the_next(home: Home, run: Program) -> None:
    [sweep_id] = home.sweep_ids()
    directory = home.sweep(sweep_id).directory
    directory.rename(directory.with_name(f".removed-{sweep_id}"))
    assert f"deleted {sweep_id}" in run("rm", sweep_id, "--yes", "--home", home.root).succeeded()
    assert list((home.root / "sweeps").iterdir()) == []
    again = write_sweep(home, spec(name="again"))
    shutil_copy = home.root / "sweeps" / f".removed-{again.id}"
    shutil_copy.mkdir()
    (shutil_copy / "file").write_text("left")
    run("rm", again.id, "--yes", "--home", home.root).succeeded()
    assert list((home.root / "sweeps").iterdir()) == []


@pytest.mark.parametrize("full", ["space.yaml", "journal.jsonl"])
def test_a_disk_that_fills_while_a_sweep_is_created_leaves_nothing(
    full: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, message = Home(tmp_path), "No space left on device"

    def fail(*given: object, **named: object) -> None:
        raise OSError(28, message)

    with monkeypatch.context() as patched:
        patched.setattr(
            *(
                ("orchestrator.history.sweeps.replace_whole", fail)
                if full == "space.yaml"
                else (Journal, "append", fail)
            )
        )
        with pytest.raises(OSError, match=message):
            create_sweep(spec(), home)
    assert list((tmp_path / "sweeps").iterdir()) == []
    assert home.sweep_ids() == []
    assert len([create_sweep(spec(), home)]) == len(home.sweep_ids()) == 1


@pytest.mark.parametrize("name", ["50%", "what?"])
def test_a_refused_home_is_not_created(name: str, tmp_path: Path, run: Program) -> None:
    words = ("--profile", "smoke", "--engine", "local", "--home", tmp_path / name)
    assert "without % and ?" in run("run", "add_vs_add_prod", *words).refused()
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("part", ["sweeps", "runs", "claims"])
def test_a_home_with_a_linked_part_is_refused_and_the_target_kept(part: str, home: Home, victim: Path) -> None:
    [sweep_id] = home.sweep_ids()
    if (home.root / part).exists():
        (home.root / part).rename(victim.parent / part)
    else:
        (victim.parent / part).mkdir()
    (home.root / part).symlink_to(victim.parent / part)
    before = sorted(victim.parent.rglob("*"))
    for words in (("sweeps",), ("rm", sweep_id, "--yes"), ("home", "export", victim.parent.parent / "x.tar.gz")):
        assert "is a link, which is not followed" in command(*words, "--home", home.root).refused()
    assert sorted(victim.parent.rglob("*")) == before
    assert any("is a link" in thing for thing in foreign_things(home))


@pytest.mark.parametrize("part", ["checkpoints", "stacks", "driver.lock"])
def test_a_sweep_that_is_driven_does_not_write_through_links(part: str, home: Home, victim: Path) -> None:
    files = home.sweep(home.sweep_ids()[0])
    target = victim if part == "driver.lock" else victim.parent
    (files.directory / part).unlink(missing_ok=True)
    (files.directory / part).symlink_to(target)
    with files.driving():
        StackNotes(files.stacks).begin("stack", [])
        with Checkpoints(files.checkpoints).put("stack", []):
            pass
    assert list(victim.parent.iterdir()) == [victim]
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("kind", ["link", "link to a device", "pipe"])
def test_the_progress_of_a_stack_is_not_written_through_a_link(kind: str, home: Home, victim: Path) -> None:
    """The driver cuts the incomplete last line of the progress that it finds."""
    files = home.sweep(home.sweep_ids()[0])
    victim.write_text("a line\nand a last one without an end")
    progress = files.stacks / "stack" / PROGRESS
    progress.parent.mkdir(parents=True)
    {"link": lambda: progress.symlink_to(victim), "pipe": lambda: pipe(progress)}.get(kind, lambda: device(progress))()
    with in_time():
        StackNotes(files.stacks).begin("stack", [])
        StackNotes(files.stacks).evaluated("stack", "key", Evaluation(1, 0.5, {"add": 0.5}))
    assert victim.read_text() == "a line\nand a last one without an end"
    assert list(read_progress(progress.parent)) == ["key"]


@pytest.mark.parametrize("name", [PROGRESS, "other"])
def test_what_a_link_among_notes_names_is_not_copied_to_smaller_stacks(name: str, home: Home, victim: Path) -> None:
    files = home.sweep(home.sweep_ids()[0])
    notes = StackNotes(files.stacks)
    notes.begin("stack", [])
    (files.stacks / "stack" / name).symlink_to(victim)
    (files.stacks / "half").symlink_to(victim.parent)
    notes.split("stack", {"half": [], "other-half": []})
    assert not [path for path in files.stacks.rglob("*") if path.is_file() and path.read_text() == "mine"]
    assert list(victim.parent.iterdir()) == [victim]


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_checkpoint_with_a_link_or_pipe_is_dropped_although_its_contents_do_not_list_it(
    kind: str, home: Home, victim: Path
) -> None:
    """A learner would wait for the pipe."""
    files = home.sweep(home.sweep_ids()[0])
    checkpoints = Checkpoints(files.checkpoints)
    with checkpoints.put("stack", []) as directory:
        (directory / LEARNER_DIRECTORY).mkdir()
    path = files.checkpoints / "stack.1" / LEARNER_DIRECTORY / "stack.safetensors"
    path.symlink_to(victim) if kind == "link" else pipe(path)
    assert "stack.safetensors is not a plain file" in checkpoints.check("stack")
    assert checkpoints.stacks() == []
    assert victim.read_text() == "mine"


ENDLESS = (
    "hex(zeroblob(400000000 + id))",
    "substr(replace(hex(zeroblob(800000)), '0', 'ab') || id, 1, 32)",
    "iif(replace(hex(zeroblob(1000000)), '0', 'a') LIKE '%' || replace(hex(zeroblob(20000)), '0', 'a') || 'b', 1, 2)",
    "iif(instr(replace(hex(zeroblob(1500000)), '0', 'a'), replace(hex(zeroblob(750000)), '0', 'a') || 'b'), 1, 2)",
)
"""Expressions that compute values of gigabytes, or that SQLite cannot be stopped in for minutes."""


def with_expression(database: Path, table: str, column: str, expression: str) -> None:
    """Write a database with a generated column. Its definition is written as if the file had been edited, because
    SQLite would compute the column at once."""
    definition = f"CREATE TABLE {table}(id INTEGER, {column} TEXT GENERATED ALWAYS AS ({expression}) VIRTUAL)"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE made (id INTEGER)")
        connection.executemany("INSERT INTO made VALUES (?)", [(number,) for number in range(1000)])
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET name = ?, tbl_name = ?, sql = ?", (table, table, definition))
        connection.commit()


@pytest.mark.parametrize("expression", ENDLESS)
def test_no_row_of_a_record_with_other_tables_than_mlflows_is_read(expression: str, home: Home) -> None:
    """It need not end, and SQLite's handler is not called within one comparison."""
    with_expression(home.root / DATABASE, "runs", "run_uuid", expression)
    with in_time():
        [line] = foreign_records(home.root / DATABASE)
    assert "does not make (runs)" in line
    assert "so its records were not read; `sync --rebuild`" in line
    result = files_of_home(home.root)
    assert (result.grade, line in result.text) == (Grade.WRONG, True)


@pytest.mark.parametrize("statement", ["CREATE VIEW extra AS SELECT 1", "CREATE TABLE extra (id)"])
def test_a_record_with_one_more_table_or_view_is_not_read(statement: str, home: Home) -> None:
    make_database(home.root / DATABASE)
    assert foreign_records(home.root / DATABASE) == []
    with closing(sqlite3.connect(home.root / DATABASE)) as connection:
        connection.execute(statement)
        connection.commit()
    [line] = foreign_records(home.root / DATABASE)
    assert "does not make (extra), so its records were not read" in line


def test_a_record_that_lacks_a_table_is_not_read(home: Home) -> None:
    make_database(home.root / DATABASE)
    with closing(sqlite3.connect(home.root / DATABASE)) as connection:
        connection.execute("DROP TABLE latest_metrics")
        connection.commit()
    [line] = foreign_records(home.root / DATABASE)
    assert "lacks tables that MLflow" in line
    assert "latest_metrics" in line


@pytest.mark.parametrize("expression", ENDLESS)
def test_a_database_that_computes_without_end_is_not_waited_for(
    expression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_database, "TIMEOUT_S", 0.5)
    monkeypatch.setattr(foreign_database, "LONGEST_QUERY_S", 0.5)
    with_expression(tmp_path / DATABASE, "runs", "run_uuid", expression)
    with in_time(), open_database(tmp_path / DATABASE) as connection, pytest.raises(sqlite3.Error):
        connection.execute("SELECT run_uuid FROM runs WHERE run_uuid NOT GLOB '[0-9a-f]'").fetchall()


@pytest.mark.parametrize("name", ["sqlite_stat1", "sqlite_sequence"])
def test_a_table_with_the_name_of_one_of_sqlites_own_is_compared_too(name: str, home: Home) -> None:
    with_expression(home.root / DATABASE, name, "stat", "id + 1")
    with open_database(home.root / DATABASE) as connection:
        [(found, words)] = schema_of(connection)
    assert (found, "GENERATED" in words) == (name, True)


def test_a_list_of_stop_requests_of_any_content_is_read(home: Home) -> None:
    files = home.sweep(home.sweep_ids()[0])
    (files.directory / "stop.jsonl").write_bytes(b'{"mix": 5}\n[]\n{"mix": "add"}\nx\n{}\n{"mix": ["add"]}\n')
    assert files.stop_requests() == ["add"]

"""Whose a home is: what its user does with it never loses or repeats a run, and what comes from elsewhere is read."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import orchestrator as o
from orchestrator.history.export_archive import export_home
from orchestrator.home.directories import Home
from orchestrator.home.new_home import make_home
from orchestrator.home.ownership import (
    HOME_ID_FILE,
    check_own,
    homes_list,
    is_home,
    list_as_own,
    trust_home,
    why_foreign,
)
from orchestrator.system.errors import UserError
from orchestrator.system.own_lists import CONFIG_VARIABLE, own_list
from tests.catalog.fabricated import runs_of, write_sweep
from tests.cli.program import Program
from tests.disks import mounted
from tests.record.servers import free_port
from tests.sweep.sweeps import ended, run_here, spec

OTHER = 65534
SMALL = spec(sizes=[8, 16], search={"method": "grid"})
DONE = 3
"""Runs of :data:`SMALL` that have ended."""
LEFT = len(runs_of(SMALL)) - DONE
GIVEN = """
question: Does PROD help ADD?
name: logistic
family: tests.families:LogisticFamily
target: add
mixes: [add, add+prod]
sizes: [8, 16]
seeds: 2
search: {method: grid}
"""
"""The file of :data:`SMALL`."""


@pytest.fixture(name="configuration", autouse=True)
def own_configuration(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty configuration directory."""
    directory = tmp_path_factory.mktemp("configuration")
    monkeypatch.setenv(CONFIG_VARIABLE, str(directory))
    return directory


@pytest.fixture(name="home")
def stopped_home(tmp_path: Path) -> Home:
    """A home of this user with an unfinished sweep of :data:`SMALL`."""
    home = Home(tmp_path / "place" / "results")
    write_sweep(home, SMALL, runs=runs_of(SMALL)[:DONE], answered=False)
    return home


def resumed(home: Path) -> int:
    """Resume the only sweep of a home, and return how many of its runs were trained now."""
    before = {path: path.stat().st_mtime_ns for path in home.glob("runs/*/outcome.json")}
    run_here(SMALL, home, resume="")
    after = {path: path.stat().st_mtime_ns for path in home.glob("runs/*/outcome.json")}
    assert before.items() <= after.items()
    assert len(ended(home)) == len(runs_of(SMALL))
    return len(after) - len(before)


def content(home: Path) -> dict[str, bytes]:
    return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}


# What a user does with a home.


def stay(home: Path) -> Path:
    return home


def move(home: Path) -> Path:
    return home.rename(home.with_name("moved"))


def move_the_folder_above(home: Path) -> Path:
    return home.parent.rename(home.parent.with_name("moved")) / home.name


def link(home: Path) -> Path:
    """The home is on a larger disk, with a link in the old place."""
    moved = home.rename(home.with_name("moved"))
    home.symlink_to(moved)
    return home


def change_modes(home: Path) -> Path:
    subprocess.run(["chmod", "-R", "g+rX,o-w", home], check=True)
    return home


def restore_in_place(home: Path) -> Path:
    subprocess.run(["cp", "-a", home, home.with_name("backup")], check=True)
    shutil.rmtree(home)
    home.with_name("other").mkdir()  # Takes the number of the directory that is free now.
    subprocess.run(["cp", "-a", home.with_name("backup"), home], check=True)
    return home


def use_on_another_host(home: Path) -> Path:
    """A disk of the network has another device number there, but the user's list, as everything in ``$HOME``."""
    lines = [json.loads(line) for line in homes_list().read_text().splitlines()]
    homes_list().write_text("".join(f"{json.dumps([*line[:2], line[2] + 7, line[3]])}\n" for line in lines))
    return home


@pytest.mark.parametrize(
    "do", [stay, move, move_the_folder_above, link, change_modes, restore_in_place, use_on_another_host]
)
def test_a_home_stays_its_users(do: Callable[[Path], Path], home: Home) -> None:
    place = do(home.root)
    assert why_foreign(place) == ""
    assert resumed(place) == LEFT
    assert why_foreign(place) == ""


def test_a_home_that_was_moved_and_used_is_known_there(home: Home, tmp_path: Path) -> None:
    moved = move(home.root)
    resumed(moved)
    use_on_another_host(moved)
    assert why_foreign(moved) == ""


# What comes from elsewhere, or cannot be told from it.


def copy(home: Path) -> Path:
    subprocess.run(["cp", "-a", home, home.with_name("copy")], check=True)
    return home.with_name("copy")


def copy_and_delete(home: Path) -> Path:
    place = copy(home)
    shutil.rmtree(home)
    return place


def copy_with_links(home: Path) -> Path:
    subprocess.run(["cp", "-al", home, home.with_name("copy")], check=True)
    return home.with_name("copy")


def unpack(home: Path) -> Path:
    place = home.with_name("unpacked")
    place.mkdir()
    subprocess.run(["tar", "-C", home, "-cf", home.with_name("home.tar"), "."], check=True)
    subprocess.run(["tar", "-C", place, "-xf", home.with_name("home.tar")], check=True)
    return place


def unpack_without_id_in_place(home: Path) -> Path:
    """Another user's home comes to lie where one of the user's was."""
    subprocess.run(
        ["tar", "-C", home, "--exclude", f"./{HOME_ID_FILE}", "-cf", home.with_name("home.tar"), "."], check=True
    )
    shutil.rmtree(home)
    home.mkdir()
    subprocess.run(["tar", "-C", home, "-xf", home.with_name("home.tar")], check=True)
    return home


def unpack_with_another_id_in_place(home: Path) -> Path:
    place = unpack_without_id_in_place(home)
    (place / HOME_ID_FILE).write_text("0" * 32)
    return place


def clone(home: Path) -> Path:
    git: list[str | Path] = ["git", "-C", home, "-c", "user.name=A", "-c", "user.email=a@example.com"]
    for words in (["init", "-q"], ["add", "--all"], ["commit", "-q", "-m", "results"]):
        subprocess.run([*git, *words], check=True)
    subprocess.run(["git", "clone", "-q", home, home.with_name("clone")], check=True)
    return home.with_name("clone")


def forget(home: Path) -> Path:
    """The user deletes ``~/.config``, or uses a container or a machine that does not have it."""
    homes_list().unlink()
    return home


def made_before(home: Path) -> Path:
    """A home of a version without ids."""
    (home / HOME_ID_FILE).unlink()
    return home


def link_to_an_id(home: Path) -> Path:
    place = unpack(home)
    (place / HOME_ID_FILE).unlink()
    (place / HOME_ID_FILE).symlink_to(home / HOME_ID_FILE)
    return place


FOREIGN = [
    copy,
    copy_and_delete,
    copy_with_links,
    unpack,
    unpack_without_id_in_place,
    unpack_with_another_id_in_place,
    clone,
    forget,
    made_before,
    link_to_an_id,
]


@pytest.mark.parametrize("do", FOREIGN)
def test_what_may_be_of_somebody_else_is_read_until_one_command_says_it_is_not(
    do: Callable[[Path], Path], home: Home, run: Program
) -> None:
    place = do(home.root)
    before = content(place)
    with pytest.raises(UserError) as refused:
        run_here(SMALL, place, resume="")
    assert content(place) == before
    assert o.load(home=place).runs.shape[0] == DONE
    for words in (["sweeps"], ["status"], ["explain"]):
        assert run(*words, "--home", place).code == 0
    [trust, export, into] = str(refused.value).split("`")[1::2]
    assert run(*shlex.split(trust)[-3:]).succeeded()
    assert resumed(place) == LEFT
    assert "--home" in export
    assert "import" in into


@pytest.mark.parametrize("do", [unpack, made_before])
def test_runs_of_a_home_of_somebody_else_are_taken_as_imported(
    do: Callable[[Path], Path], home: Home, run: Program, tmp_path: Path
) -> None:
    """The second way that the refusal names, word by word."""
    place = do(home.root)
    with pytest.raises(UserError) as refused:
        run_here(SMALL, place)
    for command in str(refused.value).split("`")[3::2]:
        run(*shlex.split(command)[1 if "-m" not in command else 3 :]).succeeded()
    [sweep] = o.sweeps(tmp_path / "results").itertuples()
    assert sweep.imported


def test_a_copy_that_gets_the_number_of_a_deleted_file_is_read(home: Home) -> None:
    """A disk gives the numbers of deleted files and directories to new ones. Only the list shows this one."""
    place = copy(home.root)
    shutil.rmtree(home.root)
    number = (place / HOME_ID_FILE).stat().st_ino
    lines = [json.loads(line) for line in homes_list().read_text().splitlines()]
    assert [len(line) for line in lines] == [5, 5]  # Before the id was written, and after.
    homes_list().write_text("".join(f"{json.dumps([*line[:3], number, line[4]])}\n" for line in lines))
    assert why_foreign(place) == f"it is a copy of {home.root}, or was moved from there"


def test_a_list_of_earlier_versions_counts_by_paths(home: Home) -> None:
    [_, line] = [json.loads(line) for line in homes_list().read_text().splitlines()]
    status = home.root.stat()
    homes_list().write_text(f"{json.dumps([*line[:2], status.st_dev, status.st_ino])}\n")
    assert why_foreign(home.root) == ""
    assert "was moved from there" in why_foreign(move(home.root))


def test_a_home_on_another_disk_is_read(home: Home, tmp_path: Path) -> None:
    with mounted(tmp_path / "disk") as disk:
        place = Path(shutil.move(home.root, disk / "results"))
        assert f"or was moved from {home.root}" not in why_foreign(home.root)
        assert why_foreign(place) == f"it is a copy of {home.root}, or was moved from there"
        trust_home(place)
        assert resumed(place) == LEFT


@pytest.mark.parametrize(
    "words",
    [
        ["run", "given.yaml", "--engine=local"],
        ["run", "given.yaml", "--engine=local", "--resume"],
        ["run", "given.yaml", "--engine=local", "--fresh"],
        ["run", "given.yaml", "--engine=local", "--extend", "logistic"],
        ["reproduce", "given.yaml", "--only-table"],
        ["sync"],
        ["sync", "--rebuild"],
        ["sync", "--record=jsonl"],
        ["rm", "logistic", "--yes"],
        ["probe", "logistic", "embedding_similarity"],
        ["home", "import", "home.tar.gz"],
    ],
    ids=" ".join,
)
def test_no_command_writes_in_a_home_of_somebody_else(words: list[str], home: Home, run: Program) -> None:
    Path("given.yaml").write_text(GIVEN)
    export_home(home, Path("home.tar.gz"))
    place = unpack(home.root)
    before = content(place)
    assert f"{place} is not in your list of homes" in run(*words, "--home", place).refused()
    assert content(place) == before
    assert not (place / "mlflow.db").exists()


def test_reading_works_in_a_home_of_somebody_else(home: Home, run: Program, tmp_path: Path) -> None:
    Path("given.yaml").write_text(GIVEN)
    place = unpack(home.root)
    for words in (
        ["sweeps"],
        ["status", "logistic"],
        ["explain", "logistic"],
        ["report", "logistic", "--output", tmp_path / "report.html"],
        ["export", "logistic", "--output", tmp_path / "answer.json"],
        ["verify", tmp_path / "answer.json", "--space", "given.yaml"],
        ["home", "export", tmp_path / "home.tar.gz"],
    ):
        done = run(*words, *([] if words[0] == "verify" else ["--home", place]))
        assert done.code == 0, (words, done.err)


def test_commands_that_read_a_home_of_somebody_else_say_so_once(home: Home, run: Program, tmp_path: Path) -> None:
    foreign = unpack(home.root)
    note = f"note: {foreign} is not in your list of homes (it is a copy of {home.root}, or was moved from there)"
    for place, notes in ((home.root, 0), (foreign, 1)):
        output = tmp_path / f"{notes}"
        output.mkdir()
        for words in (
            ["sweeps"],
            ["sweeps", "--json"],
            ["status", "logistic"],
            ["status", "logistic", "--json"],
            ["explain", "logistic"],
            ["compare", "logistic"],
            ["figure", "logistic", "--output", output / "figure.svg"],
            ["report", "logistic", "--output", output / "report.html"],
            ["export", "logistic", "--output", output / "tables"],
        ):
            done = run(*words, "--home", place)
            assert (done.code, done.err.count("note:"), done.err.count(note)) == (0, notes, notes), words
            assert "note:" not in done.out
            if "--json" in words:
                json.loads(done.out)
        for read in (o.sweeps, partial(o.load, "logistic")):
            with warnings.catch_warnings(record=True) as caught:
                read(home=place)
            assert [(str(one.message).startswith(note.removeprefix("note: ")), one.filename) for one in caught] == [
                (True, __file__)
            ] * notes


def test_ui_shows_a_home_of_somebody_else_without_their_record(
    home: Home, run: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = unpack(home.root)
    (place / "mlflow.db").write_bytes(b"not a database")
    waited = threading.Event()
    monkeypatch.setattr("orchestrator.site.server.until_interrupted", waited.set)
    done = run("ui", "--home", place, "--port", free_port())
    assert waited.is_set(), done
    assert f"MLflow's record in {place} is not opened" in done.err
    assert "Serving all sweeps at" in done.out


def test_a_directory_without_a_home_becomes_one(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("of a project")
    for place in (tmp_path, tmp_path / "new" / "results"):
        assert why_foreign(place) == ""
        make_home(place)
        assert is_home(place) is False
        write_sweep(Home(place), SMALL)
        assert is_home(place)
        assert why_foreign(place) == ""
    assert (homes_list().stat().st_mode & 0o777, homes_list().parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_link_of_a_project_makes_no_home_of_other_files(home: Home, tmp_path: Path) -> None:
    private = tmp_path / "my keys"
    private.mkdir()
    (private / "key").write_text("secret")
    link = tmp_path / "results"
    link.symlink_to(private)
    with pytest.raises(UserError, match=re.escape(f"a link to {private}, which has other files")) as caught:
        make_home(link)
    assert f"--home '{private}'" in str(caught.value)
    assert [path.name for path in private.iterdir()] == ["key"]


def test_a_link_to_an_empty_directory_or_to_a_home_is_a_home(home: Home, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    for number, target in enumerate((tmp_path / "scratch", home.root)):
        link = tmp_path / f"link{number}"
        link.symlink_to(target)
        make_home(link)
        make_home(link)  # It has an id now.
        assert why_foreign(link) == ""


def test_a_new_home_does_not_keep_an_id_that_it_came_with(home: Home, tmp_path: Path) -> None:
    """The author of a directory knows that id, and can put a home with it in the same place later."""
    cloned = tmp_path / "clone"
    cloned.mkdir()
    (cloned / HOME_ID_FILE).write_text("0" * 32)
    make_home(cloned)
    own = (cloned / HOME_ID_FILE).read_text()
    assert own != "0" * 32
    make_home(cloned)
    assert (cloned / HOME_ID_FILE).read_text() == own
    shutil.rmtree(cloned)
    shutil.copytree(home.root, cloned)
    (cloned / HOME_ID_FILE).write_text("0" * 32)
    assert "does not list it" in why_foreign(cloned)


def test_two_commands_can_begin_a_home_at_once(tmp_path: Path) -> None:
    places = [tmp_path / f"home {number}" for number in range(20)]
    for place in places:
        place.mkdir()
        threads = [threading.Thread(target=list_as_own, args=(place,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (place / "runs.jsonl").write_text("{}\n")
    assert [why_foreign(place) for place in places] == [""] * len(places)


# The list.


def test_a_list_that_cannot_be_written_stops_no_sweep_and_is_said(
    tmp_path: Path, run: Program, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a container with a read-only root."""
    Path("given.yaml").write_text(GIVEN)
    with mounted(tmp_path / "settings", "-o", "ro") as settings:
        monkeypatch.setenv(CONFIG_VARIABLE, str(settings))
        out = run("run", "given.yaml", "--engine=local", "--home", "results").succeeded()
        assert f"set {CONFIG_VARIABLE} to a directory of yours" in " ".join(out.split())
        assert f"set {CONFIG_VARIABLE} to a directory of yours" in run("home", "trust", "results").refused()
        assert "not in your list of homes" in run("run", "given.yaml", "--resume", "--home", "results").refused()
    monkeypatch.setenv(CONFIG_VARIABLE, str(tmp_path / "own"))
    run("home", "trust", "results").succeeded()
    run("run", "given.yaml", "--engine=local", "--resume", "--home", "results").succeeded()


def test_a_list_that_others_can_write_does_not_count(home: Home) -> None:
    homes_list().parent.chmod(0o777)
    why = why_foreign(home.root)
    assert f"`chmod go-w {homes_list().parent}`" in why
    with pytest.raises(UserError, match="does not count"):
        check_own(home.root)
    with pytest.raises(UserError, match="others can write"):
        trust_home(home.root)
    homes_list().parent.chmod(0o700)
    assert why_foreign(home.root) == ""


@pytest.mark.parametrize("line", ["", "null", "[]", '"text"', "[1, 2, 3, 4]", "[" * 9999, "{}", '["a", "b", "c", "d"]'])
def test_a_damaged_line_of_the_list_leaves_the_others(line: str, home: Home) -> None:
    homes_list().write_text(f"{line}\n{homes_list().read_text()}{line}")
    assert why_foreign(home.root) == ""


@pytest.fixture(name="public")
def public_place() -> Iterator[Path]:
    """A directory with a short path that every user can open and write, as on a shared disk."""
    with tempfile.TemporaryDirectory(prefix="o-", dir="/tmp") as directory:
        os.chmod(directory, 0o1777)
        yield Path(directory)


def as_user(user: int, act: Callable[[], object]) -> None:
    """Call a function in a process of another user. What it raises fails the test."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            act()
            code = 0
        except BaseException as error:  # noqa: BLE001 - the process ends here
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")


@needs_root
def test_without_home_and_settings_the_list_is_in_a_private_directory(
    public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container under a user id without an entry in the user list."""
    monkeypatch.delenv(CONFIG_VARIABLE)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(public))

    def act() -> None:
        make_home(public / "results")
        write_sweep(Home(public / "results"), SMALL)
        assert homes_list().is_relative_to(public / "orchestrator-4321")
        assert why_foreign(public / "results") == ""
        assert os.stat(public / "orchestrator-4321").st_mode & 0o777 == 0o700

    as_user(4321, act)


@needs_root
def test_a_home_of_another_user_is_read_until_it_is_trusted(public: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They share it with everybody, or wait with an empty one for somebody to start a sweep there."""
    theirs, planted = public / "theirs", public / "results"

    def act() -> None:
        monkeypatch.setenv(CONFIG_VARIABLE, str(public / "settings of theirs"))
        write_sweep(Home(theirs), SMALL, runs=runs_of(SMALL)[:DONE], answered=False)
        theirs.chmod(0o755)
        planted.mkdir()
        planted.chmod(0o777)

    as_user(OTHER, act)
    for place in (theirs, planted):
        assert why_foreign(place).startswith("it belongs to another user")
        with pytest.raises(UserError, match="belongs to another user"):
            make_home(place)
    assert o.load(home=theirs).runs.shape[0] == DONE
    assert list(planted.iterdir()) == []
    assert "what they write there counts as yours" in trust_home(theirs)
    assert why_foreign(theirs) == ""
    # They still know it by the same id.
    as_user(OTHER, lambda: check_known(theirs, public / "settings of theirs"))


@needs_root
def test_a_home_that_its_owner_lets_others_only_read_cannot_be_trusted(
    public: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its new id could not be written, so nothing is listed."""
    shutil.copytree(home.root, public / "theirs")
    (public / "theirs" / HOME_ID_FILE).unlink()
    subprocess.run(["chmod", "-R", "a+rX", public / "theirs"], check=True)

    def act() -> None:
        monkeypatch.setenv(CONFIG_VARIABLE, str(public / "settings"))
        with pytest.raises(UserError, match="belongs to root, and you cannot write there, so it cannot become your"):
            trust_home(public / "theirs")
        assert not own_list("homes.jsonl").exists()

    public.chmod(0o1777)
    as_user(OTHER, act)


def check_known(home: Path, settings: Path) -> None:
    os.environ[CONFIG_VARIABLE] = str(settings)
    assert why_foreign(home) == ""
    assert own_list("homes.jsonl").stat().st_uid == os.getuid()


@needs_root
def test_a_home_that_another_user_exchanges_is_read(public: Path, home: Home) -> None:
    """Everybody can rename a home in a directory without the sticky bit. They cannot read its id."""
    public.chmod(0o777)
    shutil.move(home.root, public / "results")
    trust_home(public / "results")

    def act() -> None:
        (public / "results").rename(public / "aside")
        (public / "results").mkdir()
        (public / "results" / "runs.jsonl").write_text("{}\n")
        (public / "results" / HOME_ID_FILE).write_text("0" * 32)

    as_user(OTHER, act)
    assert "another user" in why_foreign(public / "results")


@needs_root
def test_another_user_cannot_put_a_copy_in_the_place_of_a_home(public: Path, home: Home) -> None:
    place = public / "results"
    shutil.move(home.root, place)
    trust_home(place)
    shutil.copytree(place, public / "copy")
    shutil.rmtree(place)
    subprocess.run(["chown", "-R", f"{OTHER}:{OTHER}", public / "copy"], check=True)
    (public / "copy").rename(place)
    assert "another user" in why_foreign(place)
    trust_home(place)
    assert why_foreign(place) == ""
    (place / HOME_ID_FILE).chmod(0o640)  # It may as well have been written.
    assert "another user" in why_foreign(place)


def test_trusting_a_home_allows_no_code(home: Home, run: Program, tmp_path: Path) -> None:
    place = unpack(home.root)
    (place / "evil.py").write_text("raise SystemExit(7)\n")
    assert "Sweeps import no code from it" in run("home", "trust", place).succeeded()
    assert not own_list("folders.jsonl").exists() or str(place) not in own_list("folders.jsonl").read_text()
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "models.py").touch()
    assert "may now import code" in run("home", "trust", tmp_path / "code").succeeded()
    assert why_foreign(tmp_path / "code") == ""
    for part in (next(place.glob("sweeps/*")), place / "sweeps", place / "runs"):
        assert "is part of a home" in run("home", "trust", part).refused()


def test_a_command_is_printed_so_that_it_can_be_pasted(home: Home, run: Program) -> None:
    place = home.root.with_name("Ann's results; $(touch marker)")
    shutil.copytree(home.root, place)
    with pytest.raises(UserError) as refused:
        check_own(place)
    trust = str(refused.value).split("`")[1]
    assert shlex.split(trust)[-1] == str(place)
    run(*shlex.split(trust)[-3:]).succeeded()
    assert why_foreign(place) == ""

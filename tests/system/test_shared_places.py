"""Directories that other users can write: what is written or opened there stays this user's."""

from __future__ import annotations

import grp
import os
import pwd
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from orchestrator.catalog.summary_cache import directory, find, read_summary
from orchestrator.home.directories import Home
from orchestrator.home.ownership import homes_list, trust_home
from orchestrator.home.trusted_code import list_path
from orchestrator.site.mlflow_proxy import MlflowPage
from orchestrator.system import files
from orchestrator.system.environment import private_directory, socket_directory, temporary_directory
from orchestrator.system.errors import UserError
from orchestrator.system.files import whole_directory
from orchestrator.system.own_lists import CONFIG_VARIABLE, add_to_list, list_flaw, read_list
from orchestrator.system.permissions import exchange_text, foreign_link, is_of_another, writable_by_others
from tests.catalog.fabricated import write_sweep
from tests.cli.program import Program, process
from trainables.contract import other_writers
from trainables.contract.files import write_whole

NOBODY = 65534
PRECIOUS = "a file of this user\n"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make links of another user")


@pytest.fixture(name="precious")
def precious_file(tmp_path: Path) -> Path:
    path = tmp_path / "precious"
    path.write_text(PRECIOUS)
    return path


@pytest.fixture(name="shared")
def shared_directory(tmp_path: Path) -> Path:
    """A directory that every user can write."""
    path = tmp_path / "shared"
    path.mkdir()
    path.chmod(0o777)
    return path


def link_of_another(link: Path, target: Path) -> Path:
    """Make a link, and directories around it, as another user does."""
    made = [above for above in link.parents if not above.exists()]
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)
    for path in (link, *made):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    return link


@as_root
@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["export"], "answer.json"),
        (["report"], "report.html"),
        (["figure"], "figure.png"),
        (["home", "export"], "home.tar.gz"),
    ],
)
@pytest.mark.parametrize("is_direct", [True, False])
def test_no_output_is_written_through_a_link_of_another_user(
    command: list[str], name: str, is_direct: bool, run: Program, tmp_path: Path, shared: Path, precious: Path
) -> None:
    home = Home(tmp_path / "home")
    words = [*command] if command[0] == "home" else [*command, write_sweep(home).id, "--output"]
    link = link_of_another(shared / name, precious) if is_direct else link_of_another(shared / "below", tmp_path)
    file = link if is_direct else link / "precious.png"
    refused = run(*words, file, "--home", home.root).refused()
    assert f"{link} is a link of another user (nobody), which is not followed" in " ".join(refused.split())
    assert precious.read_text() == PRECIOUS
    assert not (tmp_path / "precious.png").exists()


@as_root
@pytest.mark.parametrize("write", [write_whole, files.write_whole], ids=["trainables", "orchestrator"])
def test_a_link_of_another_user_is_not_followed_through_a_link_of_this_user(
    write: Callable[[Path, str], None], tmp_path: Path, shared: Path, precious: Path
) -> None:
    link = link_of_another(shared / "link", precious)
    (tmp_path / "own").symlink_to(link)
    for path in (link, tmp_path / "own"):
        assert foreign_link(path) == link
        with pytest.raises(PermissionError, match="link of another user"):
            write(path, "other")
    assert precious.read_text() == PRECIOUS


@as_root
@pytest.mark.parametrize("write", [write_whole, files.write_whole], ids=["trainables", "orchestrator"])
@pytest.mark.parametrize("through", ["", "own link"])
def test_a_pipe_of_another_user_gets_nothing(
    write: Callable[[Path, str], None], through: str, tmp_path: Path, shared: Path
) -> None:
    """They would read a private sweep, and the command would wait for as long as they like."""
    pipe = shared / "answer.json"
    os.mkfifo(pipe)
    os.chown(pipe, NOBODY, NOBODY)
    if through:
        (tmp_path / "own").symlink_to(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(PermissionError, match="pipe or device of another user"):
        write(tmp_path / "own" if through else pipe, "private")
    assert os.read(reader, 100) == b""
    os.close(reader)


@as_root
def test_a_link_on_the_way_that_was_made_after_a_check_is_not_followed(
    tmp_path: Path, shared: Path, precious: Path
) -> None:
    """A command checks a path before it spends seconds on a figure."""
    link_of_another(shared / "plots", tmp_path)
    (tmp_path / "own").symlink_to(shared / "plots" / precious.name)
    for path in (shared / "plots" / precious.name, tmp_path / "own"):
        with pytest.raises(OSError, match="link of another user"):
            files.write_whole(path, "other")
    assert precious.read_text() == PRECIOUS


@as_root
def test_a_link_that_is_exchanged_after_its_check_is_not_followed(
    shared: Path, precious: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shared / "link").symlink_to(shared / "own")
    link_of_another(shared / "aside", precious)
    check = is_of_another

    def exchange(status: os.stat_result) -> bool:
        if (shared / "aside").is_symlink():
            (shared / "aside").rename(shared / "link")
        return check(status)

    monkeypatch.setattr(files, "is_of_another", exchange)
    files.write_whole(shared / "link", "other")
    assert (precious.read_text(), (shared / "own").read_text()) == (PRECIOUS, "other")


def test_links_of_this_user_are_followed(tmp_path: Path, precious: Path) -> None:
    (tmp_path / "folder").symlink_to(".", target_is_directory=True)
    (tmp_path / "link").symlink_to("folder/precious")
    (tmp_path / "circle").symlink_to("circle")
    assert [foreign_link(tmp_path / name) for name in ("link", "circle", "missing/file")] == [None] * 3
    files.write_whole(tmp_path / "link", "other")
    assert precious.read_text() == "other"
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        files.write_whole(tmp_path / "circle", "other")
    add_to_list(tmp_path / "link", 1)
    assert precious.read_text() == "other1\n"
    assert read_list(tmp_path / "link") == []


@pytest.fixture(name="settings")
def shared_settings(shared: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Directory of this user's settings, in a HOME in which others can add files."""
    shared.chmod(0o1777)
    monkeypatch.setenv("HOME", str(shared))
    monkeypatch.delenv(CONFIG_VARIABLE, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    return shared / ".config" / "orchestrator"


@as_root
@pytest.mark.parametrize("is_missing", [True, False])
def test_no_list_is_written_through_a_link_of_another_user(
    is_missing: bool, run: Program, settings: Path, tmp_path: Path, precious: Path
) -> None:
    target = tmp_path / "new" if is_missing else precious
    for path in (homes_list(), list_path()):
        link_of_another(path, target)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "model.py").touch()
    (tmp_path / "home").mkdir()
    for place, listed in (("code", list_path()), ("home", homes_list())):
        refused = " ".join(run("home", "trust", tmp_path / place).refused().split())
        assert f"{listed} is a link of another user (nobody)" in refused
        assert CONFIG_VARIABLE in refused
    with pytest.raises(PermissionError):
        add_to_list(list_path(), "x")
    assert (precious.read_text(), (tmp_path / "new").exists()) == (PRECIOUS, False)


@as_root
def test_no_list_is_made_in_a_directory_of_another_user(settings: Path, tmp_path: Path) -> None:
    settings.mkdir(parents=True)
    os.chown(settings, NOBODY, NOBODY)
    assert list_flaw(homes_list()).startswith(f"{settings} belongs to another user (nobody)")
    with pytest.raises(UserError, match="belongs to another user"):
        trust_home(tmp_path)
    assert list(settings.iterdir()) == []


def test_a_list_is_made_in_a_directory_in_which_others_can_add_files(settings: Path, tmp_path: Path) -> None:
    assert list_flaw(homes_list()) == ""
    assert trust_home(tmp_path) == ""
    assert [path.stat().st_mode & 0o777 for path in (homes_list(), settings)] == [0o600, 0o700]


@as_root
@pytest.mark.parametrize("is_link", [True, False])
def test_no_summary_is_kept_in_a_directory_of_another_user(is_link: bool, settings: Path, tmp_path: Path) -> None:
    files = write_sweep(Home(tmp_path / "home")).files
    for path in (*files.home.root.rglob("*"), files.home.root):
        os.utime(path, (1, 1))
    (tmp_path / "precious").mkdir()
    cache = directory()
    if is_link:
        link_of_another(cache, tmp_path / "precious")
    else:
        cache.mkdir(parents=True)
        os.chown(cache, NOBODY, NOBODY)
    with suppress(OSError):
        read_summary(files.home, files.id)
    assert find(files) is None
    assert list((tmp_path / "precious").iterdir()) == list(cache.iterdir()) == []


def test_a_private_directory_is_not_one_that_others_can_replace(shared: Path) -> None:
    with pytest.raises(UserError, match=f"other users can write {shared}, and could replace {shared}/orchestrator-"):
        private_directory(shared)
    (shared / "below").mkdir(mode=0o700)
    with pytest.raises(UserError, match=f"other users can write {shared}"):
        private_directory(shared / "below")
    shared.chmod(0o1777)
    assert private_directory(shared).parent == shared
    assert exchange_text(shared / "below") == ""


def test_sockets_are_not_in_a_directory_that_others_can_replace(
    shared: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(shared))
    monkeypatch.setattr("orchestrator.system.environment.LONGEST_SOCKET", 1000)
    with socket_directory() as place:
        assert place.parent == Path("/tmp")
    monkeypatch.setattr("orchestrator.system.environment.is_writable", lambda path: path == shared)
    with pytest.raises(UserError, match=f"other users can write {shared}.*set TMPDIR"), socket_directory():
        pytest.fail("it was made")
    assert list(shared.iterdir()) == []
    shared.chmod(0o1777)
    with socket_directory() as place:
        assert place.parent == shared


@pytest.mark.parametrize("is_own", [True, False])
def test_only_a_server_of_this_user_is_asked(is_own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever replaces the socket could send scripts to the page."""
    received: list[bytes] = []

    def answer(server: socket.socket) -> None:
        other, _ = server.accept()
        with other:
            received.append(other.recv(1000))
            if received[0]:
                other.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")

    with socket_directory() as place, socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place / "mlflow"))
        server.listen()
        thread = threading.Thread(target=answer, args=(server,))
        thread.start()
        if not is_own:
            monkeypatch.setattr(socket, "SO_PEERCRED", socket.SO_PEERCRED)
            monkeypatch.setattr("orchestrator.site.mlflow_proxy.CREDENTIALS", _Foreign())
        got = MlflowPage(place / "mlflow").request("GET", "", "", {}, b"")
        thread.join()
    assert (got is not None) is is_own
    assert bool(received[0]) is is_own


class _Foreign:
    """The format of credentials, as if another user had started the server."""

    size = 12

    def unpack(self, content: bytes) -> tuple[int, int, int]:
        assert len(content) == self.size
        return 1, os.getuid() + 12345, 0


@as_root
def test_another_user_cannot_make_a_command_remove_a_directory(shared: Path) -> None:
    """They can rename a directory of this user, but not empty it."""
    hours_ago = time.time() - 24 * 3600
    for name in (".out-1", ".out-2"):
        (shared / name).mkdir(mode=0o700)
        (shared / name / "thesis").write_text(PRECIOUS)
        os.utime(shared / name, (hours_ago, hours_ago))
    with whole_directory(shared / "out") as filled:
        (filled / "table.csv").write_text("1\n")
    assert (shared / "out" / "table.csv").read_text() == "1\n"
    assert [(shared / name / "thesis").read_text() for name in (".out-1", ".out-2")] == [PRECIOUS] * 2
    assert sorted(path.name for path in shared.iterdir()) == [".out-1", ".out-2", "out"]


@as_root
def test_a_directory_that_gets_the_name_of_a_hidden_one_is_kept(shared: Path) -> None:
    (shared / "mine").mkdir(mode=0o700)
    (shared / "mine" / "thesis").write_text(PRECIOUS)
    with whole_directory(shared / "out") as filled:
        (filled / "table.csv").write_text("1\n")
        [hidden] = shared.glob(".out-*")
        hidden.rename(shared / "moved")
        (shared / "mine").rename(hidden)
    assert (hidden / "thesis").read_text() == PRECIOUS
    assert list((shared / "moved").iterdir()) == []


@as_root
def test_a_directory_of_this_user_is_not_taken_for_a_new_one(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (shared / "mine").mkdir(mode=0o700)
    (shared / "mine" / "thesis").write_text(PRECIOUS)
    make = os.mkdir

    def exchanged(name: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        make(name, mode, dir_fd=dir_fd)
        if name.startswith(".out-"):
            (shared / name).rename(shared / "moved")
            (shared / "mine").rename(shared / name)

    monkeypatch.setattr(os, "mkdir", exchanged)
    with pytest.raises(OSError, match="replaced by another directory"), whole_directory(shared / "out"):
        pass
    [hidden] = shared.glob(".out-*")
    assert (hidden / "thesis").read_text() == PRECIOUS


def test_a_temporary_directory_that_others_can_exchange_is_not_used(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    with (
        pytest.raises(
            UserError, match=f"other users can write {shared}, and could replace temporary files: set TMPDIR"
        ),
        temporary_directory("x-"),
    ):
        pytest.fail("it is used")
    assert list(shared.iterdir()) == []
    shared.chmod(0o1777)
    with temporary_directory("x-") as place:
        assert place.stat().st_mode & 0o777 == 0o700
    assert list(shared.iterdir()) == []


GROUP = 2000


@pytest.fixture(name="users")
def users_of_the_system(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The main group of each user. The first is this user, who has a group of the same name."""
    users = {"smith": GROUP}
    ids = {"smith": os.getuid(), "bob": NOBODY}

    def entries() -> list[pwd.struct_passwd]:
        return [pwd.struct_passwd((name, "x", ids[name], group, "", "/", "")) for name, group in users.items()]

    monkeypatch.setattr(pwd, "getpwuid", lambda user: next(one for one in entries() if one.pw_uid == user))
    monkeypatch.setattr(pwd, "getpwall", entries)
    monkeypatch.setattr(grp, "getgrgid", lambda group: grp.struct_group(("smith", "x", group, [])))
    monkeypatch.setattr(other_writers, "_users_of", other_writers._users_of.__wrapped__)
    return users


@as_root
@pytest.mark.parametrize(("group_of_bob", "is_shared"), [(GROUP, True), (GROUP + 1, False)])
def test_a_group_of_this_users_name_is_shared_if_it_is_the_main_group_of_another(
    group_of_bob: int, is_shared: bool, users: dict[str, int], tmp_path: Path
) -> None:
    """A group's list of members lacks the users whose main group it is."""
    code = tmp_path / "code"
    code.mkdir()
    os.chown(code, -1, GROUP)
    code.chmod(0o770)
    users["bob"] = group_of_bob
    assert writable_by_others(code) == (code if is_shared else None)


@as_root
def test_an_owner_that_a_container_does_not_know_is_another_user(tmp_path: Path) -> None:
    """All users of a machine whom a rootless container does not know look alike."""
    container = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*container, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine has no user namespaces")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, 2001, 2001)
    code = "import os; from orchestrator.system.permissions import is_of_another; print(is_of_another(os.stat({!r})))"
    answers = [process([*container, sys.executable, "-c", code.format(str(place))]) for place in (theirs, tmp_path)]
    assert [answer.succeeded() for answer in answers] == ["True\n", "False\n"]

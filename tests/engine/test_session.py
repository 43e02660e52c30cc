"""One Ray instance for several sweeps."""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import ray

from orchestrator.engine.ray import session
from orchestrator.engine.ray.engine import RayEngine
from orchestrator.engine.ray.files import TOKEN, TOKEN_MODE, TOKEN_PATH, token_file
from orchestrator.engine.ray.session import PATIENT, RaySession, own_clusters
from orchestrator.jobs.resources import Resources
from orchestrator.system.errors import SweepError, UserError
from tests.cli.program import ROOT, line, process
from tests.engine.test_ray_directories import SHARED
from tests.sweep.sweeps import spec
from trainables.contract.user_code import search_path


def node() -> str:
    """Return the ID of the node that Ray runs on."""
    return str(ray.get_runtime_context().get_node_id())


def listening() -> dict[str, set[str]]:
    """Return the addresses that this process and its children listen on, by process name."""
    addresses: dict[str, set[str]] = {}
    this_process = psutil.Process()
    for listener in (this_process, *this_process.children(recursive=True)):
        at = {item.laddr.ip for item in listener.net_connections("inet") if item.status == psutil.CONN_LISTEN}
        addresses.setdefault(listener.name(), set()).update(at)
    return addresses


@pytest.mark.slow
def test_ray_listens_on_loopback_and_is_kept_between_sweeps_unless_one_fails() -> None:
    before = listening()
    with RaySession(keeps_running=True) as session:
        assert not ray.is_initialized()  # No sweep has asked for Ray yet.
        with RayEngine(session):
            first = node()
            at = {name: addresses - before.get(name, set()) for name, addresses in listening().items()}
            gcs = next(item for item in psutil.Process().children() if item.name() == "gcs_server")
            assert {name: gcs.environ().get(name) for name in PATIENT} == PATIENT
        assert at["gcs_server"]
        assert at["raylet"]
        used = {address.removeprefix("::ffff:") for addresses in at.values() for address in addresses}
        assert used == {"127.0.0.1"}
        with RayEngine(session) as engine:
            assert node() == first
            assert "Ray on this machine: 1 node" in engine.describe(Resources())
        with pytest.raises(ZeroDivisionError), RayEngine(session):
            1 / 0  # noqa: B018
        assert not ray.is_initialized()
        with RayEngine(session):
            assert node() != first
    assert not ray.is_initialized()


PYTHON = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
"""A Python that can be copied."""


@contextmanager
def raylet(place: Path, *options: str, user: int = 0, is_link: bool = False) -> Iterator[None]:
    """Run a process that looks like a node of Ray, as some user. As a link, it is another program of that name."""
    program = place / "raylet"  # Its name is that of a process which it becomes.
    if is_link:
        program.symlink_to(Path(PYTHON).resolve())
    else:
        shutil.copy(Path(PYTHON).resolve(), program)
    ready = "import sys, time; print(1, flush=True); time.sleep(60)"
    command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
    fake = subprocess.Popen([*command, program, "-c", ready, *options], stdout=subprocess.PIPE)
    try:
        assert fake.stdout is not None
        assert fake.stdout.readline() == b"1\n"
        yield
    finally:
        fake.kill()
        fake.wait()


def test_auto_joins_only_a_cluster_of_this_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not the Ray of a sweep, either: it ends with its sweep."""
    sweeps = f"--temp_dir={tmp_path}/ray-abcd/r"
    for name, options in (("one", ("--temp_dir=/tmp/ray",)), ("two", ()), ("three", (sweeps,))):
        (tmp_path / name).mkdir()
        with raylet(tmp_path / name, f"--gcs-address=127.0.0.1:1{len(name)}", *options):
            assert (f"127.0.0.1:1{len(name)}" in own_clusters()) is (sweeps not in options)
    for found in ([], ["a:1", "b:2"]):
        monkeypatch.setattr(session, "own_clusters", lambda found=found: set(found))
        with pytest.raises(UserError, match="nodes of a:1 and b:2" if found else "no node of a cluster"):
            RaySession("auto").begin()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")
@pytest.mark.parametrize("place", ["--temp_dir=/tmp/ray", ""])
def test_auto_does_not_send_the_token_to_another_user(place: str, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as open_to_all:
        Path(open_to_all).chmod(0o755)
        with raylet(Path(open_to_all), "--gcs-address=127.0.0.1:19", *filter(None, [place]), user=65534):
            assert "127.0.0.1:19" not in own_clusters()


@pytest.mark.parametrize("place", ["--temp_dir=/tmp/ray", ""])
def test_auto_does_not_take_another_program_for_a_node(place: str, tmp_path: Path) -> None:
    """Anyone can start a program that becomes root, such as sudo, through a link named raylet and with any words."""
    options = ["--gcs-address=127.0.0.1:19", *filter(None, [place])]
    with raylet(tmp_path, *options, is_link=True):
        assert "127.0.0.1:19" not in own_clusters()
    (tmp_path / "raylet").unlink()
    with raylet(tmp_path, *options):
        assert "127.0.0.1:19" in own_clusters()


ASK = "from ray._raylet import GcsClient; import sys; print(len(GcsClient(sys.argv[1]).get_all_node_info()))"
"""Program that prints the number of nodes of a Ray, if it has the token."""


@pytest.mark.slow
@pytest.mark.parametrize("is_file", [True, False], ids=["file", "variable"])
def test_a_token_of_a_cluster_does_not_open_the_ray_of_this_machine(
    is_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members of a cluster have copied the user's token. That of a local Ray is in one file that only the user can
    read, not in a log or command line, and works in its processes."""
    for name in (TOKEN_MODE, TOKEN, TOKEN_PATH):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    if is_file:
        (tmp_path / ".ray").mkdir()
        (tmp_path / ".ray" / "auth_token").write_text(SHARED)
    else:
        monkeypatch.setenv(TOKEN, SHARED)
    plain = {name: value for name, value in os.environ.items() if name not in (TOKEN_MODE, TOKEN, TOKEN_PATH)}
    with RaySession() as session:
        session.begin()
        path, address = token_file(), ray.get_runtime_context().gcs_address
        token = path.read_text()
        assert ray.get(ray.remote(token_file).remote()) == path
        for environment, answer in (({TOKEN_PATH: str(path)}, "1\n"), ({TOKEN: SHARED}, "")):
            command = [sys.executable, "-c", ASK, address]
            done = process(command, environment=plain | {TOKEN_MODE: "token"} | environment, within_s=100)
            assert done.out == answer, done.err
        directory = path.parent
        assert directory.stat().st_mode & 0o777 == 0o700
        assert path.stat().st_mode & 0o777 == 0o600
        files = [item for item in directory.rglob("*") if item.is_file()]
        assert [item for item in files if token.encode() in item.read_bytes()] == [path]
        assert len(files) > 10
        words = [child.cmdline() for child in psutil.Process().children(recursive=True)]
        assert token not in str(words)
    assert not directory.exists()
    assert os.environ.get(TOKEN) == (None if is_file else SHARED)
    assert (TOKEN_MODE in os.environ, TOKEN_PATH in os.environ) == (False, False)


def test_a_ray_of_the_users_own_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    with pytest.raises(UserError, match=r"call ray\.shutdown\(\) first"):
        RaySession().begin()


@pytest.mark.slow
@pytest.mark.parametrize("words", [("run", "units.yaml"), ("doctor",)])
def test_a_limit_on_addresses_is_refused_with_advice(words: tuple[str, ...], tmp_path: Path) -> None:
    """As on login nodes. Ray's processes would abort with 60 lines of C++."""
    (tmp_path / "units.yaml").write_text(spec(sizes=[8, 16], seeds=1).to_yaml())
    command = [
        "bash",
        "-c",
        f"ulimit -v {8 << 20}; exec {shlex.join([*line(*words), '--home', str(tmp_path / 'home')])}",
    ]
    variables = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = process(command, cwd=tmp_path, environment=variables, within_s=200)
    text = " ".join((ended.out + ended.err).split())
    assert "`ulimit -v` allows 8.6 GB of address space per process" in text
    assert "`ulimit -v unlimited`" in text
    assert "StackTrace" not in text
    assert ended.code == (2 if "run" in words else 1)
    assert not list((tmp_path / "home").glob("sweeps/*"))


@pytest.mark.parametrize("limit", [resource.RLIM_INFINITY, 1 << 50])
def test_a_wide_limit_on_addresses_is_allowed(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limit, limit))
    session._check_address_space()


@pytest.mark.night
def test_the_dashboard_answers_on_loopback() -> None:
    pytest.importorskip("opencensus")
    with RaySession(dashboard=True) as session:
        session.begin()
        assert session.dashboard_url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(session.dashboard_url, timeout=60) as answer:
            assert b"Ray Dashboard" in answer.read()


@pytest.mark.parametrize("failures", [1, 2])
def test_what_a_failed_start_of_ray_leaves_is_ended_before_the_next(
    failures: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray gives up on its raylet after 30 s of a busy machine and leaves the processes that it has started."""
    left: list[subprocess.Popen[bytes]] = []

    def start(**settings: object) -> SimpleNamespace:
        assert all(process.poll() is not None for process in left), "processes of the last start still run"
        if len(left) == failures:
            return SimpleNamespace(dashboard_url="127.0.0.1:8265")
        program = "import time; time.sleep(600)"
        left.append(subprocess.Popen([sys.executable, "-c", program, f"--log_dir={settings['_temp_dir']}/logs"]))
        raise Exception("The current node timed out during startup")

    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", f"--log_dir={tmp_path}2/r"])
    monkeypatch.setattr(session, "_init", start)
    monkeypatch.setenv("PYTHONPATH", "")
    try:
        if failures == 1:
            assert session._start_here(tmp_path / "r", dashboard=True) == "http://127.0.0.1:8265"
        else:
            with pytest.raises(SweepError, match="does not start on this machine"):
                session._start_here(tmp_path / "r", dashboard=False)
        assert all(process.poll() is not None for process in left)
        assert other.poll() is None
    finally:
        for process_left in (*left, other):
            process_left.kill()
            process_left.wait()


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["/venv/lib", "/tmp/run_10:30"], "/venv/lib"),
        (["/tmp/models:/tmp/of_somebody_else", "/venv/lib", "/venv/lib", "/a/../b"], "/venv/lib:/b"),
        ([":"], ""),
    ],
    ids=["time of day", "another directory", "nothing"],
)
def test_a_colon_in_a_directory_names_no_other_directory(
    paths: list[str], expected: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert search_path(paths) == expected
    assert (
        f"Ray's workers find no modules in {os.path.abspath(next(path for path in paths if ':' in path))}"
        in caplog.text
    )

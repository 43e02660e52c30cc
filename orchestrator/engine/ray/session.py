"""Ray session for one or more sweeps, started on this machine or joined, with clear messages on failure."""

from __future__ import annotations

import logging
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import ray
from ray._private import ray_constants
from ray._private.utils import estimate_available_memory, resolve_object_store_memory
from ray.exceptions import RayError
from ray.job_config import JobConfig

from orchestrator.engine.ray.files import (
    end_processes,
    fresh_token,
    is_private,
    private_directory,
    protect_token,
    token_file,
)
from orchestrator.system import environment
from orchestrator.system.errors import SweepError, UserError
from orchestrator.system.hardware import detect
from trainables.contract.finder import is_installed
from trainables.contract.user_code import PROGRAM, path_of_children

log = logging.getLogger(__name__)

REACHABLE = ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR
"""Variable that opens Ray's ports to other machines if it is 1. If it is 0, Ray uses 127.0.0.1 and listens only there,
as it always does on macOS and Windows."""
PATIENT = {
    "RAY_health_check_timeout_ms": "60000",
    "RAY_health_check_failure_threshold": "10",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "300",
    "RAY_gcs_server_request_timeout_seconds": "300",
    "RAY_py_gcs_connect_timeout_s": "120",
    "RAY_worker_register_timeout_seconds": "300",
}
"""Timeouts of Ray's processes for each other. The defaults, 10 to 60 s, are too short for a busy machine and would end
a sweep after hours. The sweep itself detects dead processes (``sweep/interruption.py``)."""
ANSWER_WITHIN_S = 5.0
"""Seconds for a cluster to answer. Ray itself would wait for minutes and then print a long error."""
NODE_WITHIN_S = 10.0
"""Seconds for a node that is starting on this machine to have its raylet."""
ENVIRONMENT = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # CSV, JSON and TensorBoard files that are never read
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # the sweep's own handler leaves a checkpoint
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",  # the journal has all results
    "TUNE_MAX_PENDING_TRIALS_PG": "1000000",  # the work limits the number
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",  # a failed run's traceback is in its record
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",  # hides GPUs from stacks without a GPU, as StackTrial does
}
STARTING = (ConnectionError, RuntimeError, ValueError, OSError, RayError)
"""Errors that ``ray.init`` raises if Ray does not start or refuses a token."""
RESERVED = 6 << 30
"""Bytes of addresses that each of Ray's processes reserves next to its object store, as measured with Ray 2.60."""
PARTS = ("raylet", "gcs_server")
"""Names of the Ray processes that a sweep cannot continue without."""


@dataclass
class RaySession(AbstractContextManager["RaySession"]):
    """Ray on this machine or, with ``address``, an existing cluster. It starts at the first :meth:`begin`.

    As a context manager, it ends Ray on exit. A ``kept`` session continues after successful sweeps, because starting
    Ray costs about five seconds of a core. After a failed sweep Ray ends, since workers may still be running.

    Attributes:
        dashboard: True to start Ray's dashboard, too.
        dashboard_url: Address of the dashboard, or "" without one.
    """

    address: str | None = None
    dashboard: bool = False
    kept: bool = False
    dashboard_url: str = field(default="", init=False)
    _begun: bool = field(default=False, init=False)
    _before: ExitStack = field(default_factory=ExitStack, init=False)
    _parts: list[psutil.Process] = field(default_factory=list, init=False)

    def begin(self) -> None:
        """Start or join Ray until :meth:`release`.

        Raises:
            UserError: for an invalid address, if no node of the cluster runs here, if this process has started or
                joined Ray by itself, or if `ulimit -v` is too low for Ray.
            SweepError: if Ray does not start, no cluster answers, or the cluster refuses the token.
        """
        if self._begun:
            return
        if ray.is_initialized():
            raise UserError("this process is already connected to Ray: call ray.shutdown() first")
        if self.address is None:
            _check_address_space()
        with ExitStack() as blocks:
            blocks.enter_context(environment.without_foreign())
            os.environ.update(ENVIRONMENT)
            protect_token()
            blocks.enter_context(_listening(everywhere=self.address is not None))
            if self.address is None:
                temporary = blocks.enter_context(private_directory())
                blocks.enter_context(fresh_token(temporary.parent))
                self.dashboard_url = _start_here(temporary, dashboard=self.dashboard)
            else:
                _join(self.address)
            blocks.callback(ray.shutdown)
            if self.address is None:
                self._parts = [child for child in psutil.Process().children() if child.name() in PARTS]
            self._before = blocks.pop_all()
        self._begun = True
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # The sweep itself reports failed trials.

    @property
    def is_alive(self) -> bool:
        """False if a process of a Ray that this session started has died."""
        return all(map(_is_alive, self._parts))

    def release(self, *, well: bool) -> None:
        """End Ray after a sweep, unless it is kept and the sweep succeeded (``well``)."""
        if not (self.kept and well):
            self.end()

    def end(self) -> None:
        """End Ray or leave the cluster. A second call does nothing."""
        self._before.close()
        self._parts = []
        self._begun = False

    def __exit__(self, *raised: object) -> None:
        self.end()


@contextmanager
def _listening(*, everywhere: bool) -> Iterator[None]:
    """During the block, choose the interfaces that Ray listens on, unless the user's variable does. Restore the
    variable, which is the only one that Ray reads again."""
    chosen, before = os.environ.get(REACHABLE), ray_constants.ENABLE_RAY_CLUSTER
    os.environ[REACHABLE] = chosen or ("1" if everywhere else "0")
    # Ray reads the variable when it is imported, which may have happened already.
    ray_constants.ENABLE_RAY_CLUSTER = os.environ[REACHABLE].lower() in ("1", "true")
    try:
        yield
    finally:
        os.environ.pop(REACHABLE, None)
        if chosen is not None:
            os.environ[REACHABLE] = chosen
        ray_constants.ENABLE_RAY_CLUSTER = before


@contextmanager
def _without_hangup() -> Iterator[None]:
    """Make processes that Ray starts during the block ignore the loss of the terminal. Otherwise they would end before
    the stacks have left checkpoints."""
    if threading.current_thread() is not threading.main_thread():  # Python sets handlers only there.
        yield
        return
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def _is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(process.is_running()) and bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def check_dashboard() -> None:
    """Raise :class:`UserError` if the packages of Ray's dashboard are missing."""
    if find_spec("opencensus") is None:
        raise UserError("Ray's dashboard needs more packages: pip install 'ray[default]', or leave --dashboard out")


def _check_address_space() -> None:
    """Raise ``UserError`` if this process may reserve fewer addresses than Ray's processes do. They would abort with
    long traces, because they reserve the whole object store at once."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    needed = resolve_object_store_memory(estimate_available_memory()) + RESERVED
    if limit != resource.RLIM_INFINITY and limit < needed:
        raise UserError(
            f"`ulimit -v` allows {limit / 1e9:.1f} GB of addresses to each process, but Ray's reserve about "
            f"{needed / 1e9:.0f} GB, most of which they never use: raise it (`ulimit -v unlimited`), or train without "
            "Ray (--engine local)"
        )


def _start_here(temporary: Path, *, dashboard: bool) -> str:
    """Start Ray on this machine, with its files in a temporary directory. Return the address of its dashboard, or ""
    without one."""
    os.environ.update({name: os.environ.get(name, value) for name, value in PATIENT.items()})
    os.environ["PYTHONPATH"] = path_of_children()  # Actors inherit it.
    settings = {
        "address": "local",  # Without it, Ray would join the cluster that was started last, by any user.
        "job_config": _job(),
        "include_dashboard": dashboard,
        "dashboard_host": "127.0.0.1",
        "num_cpus": detect().cpus,  # By default Ray counts all cores, not only those available to this process.
        "_temp_dir": str(temporary),
    }
    for last in (False, True):
        try:
            with _without_hangup():
                context = _init(**settings)
            break
        except Exception as error:
            _end_started(temporary)
            # Ray raises a bare Exception if its raylet has not started within 30 s.
            if type(error) is not Exception and not isinstance(error, STARTING):
                raise
            if last or isinstance(error, ValueError):
                raise SweepError(
                    f"Ray does not start on this machine, which may be too busy for it: {error}"
                ) from error
            log.info("Ray has not started, perhaps because this machine is busy; once more")
    return f"http://{context.dashboard_url}" if dashboard else ""


def _end_started(temporary: Path) -> None:
    """End what Ray has started with its files in a temporary directory, which it leaves behind if it fails."""
    ray.shutdown()
    end_processes(temporary.parent)


def _join(address: str) -> None:
    if address != "auto":
        _check_address(address)
        _check_node(address)
    elif not os.environ.get("RAY_ADDRESS"):
        address = own_cluster()
    try:
        _init(address=address, job_config=_job())
    except STARTING as error:
        raise SweepError(
            f"no Ray cluster answers at {address!r} ({error}). If it has a token, set RAY_AUTH_MODE=token, and copy "
            f"the head node's ~/.ray/auth_token to {token_file()}"
        ) from error


def own_cluster() -> str:
    """Return the address of the cluster that this machine is part of. Raises ``UserError`` unless there is one.

    Ray itself would take the first process of any user that is named raylet, and send it the token of this user. A node
    of root does not count unless root asks: this user cannot see which program it is.
    """
    addresses = sorted(own_clusters())
    if len(addresses) != 1:
        nodes = f"nodes of {' and '.join(addresses)}" if addresses else "no node of a cluster"
        raise UserError(
            f"--address auto joins the cluster that you have started a node of on this machine, but {nodes} "
            "run here: name the cluster as HOST:PORT"
        )
    return addresses[0]


def own_clusters() -> set[str]:
    """Return the addresses of clusters with a node here that this user has started, except those that belong to a
    sweep."""
    addresses = set()
    for process in psutil.process_iter(["name", "uids", "cmdline"]):
        name, uids, words = (process.info[key] for key in ("name", "uids", "cmdline"))
        if name != "raylet" or uids is None or uids.real != os.getuid() or not _runs_raylet(process.pid):
            continue
        options = dict(word.split("=", 1) for word in words or () if word.startswith("--") and "=" in word)
        address = options.get("--gcs-address")
        if address and not is_private(Path(options.get("--temp_dir", ""))):
            addresses.add(address)
    return addresses


def _runs_raylet(process: int) -> bool:
    """Return True if a process runs a program called raylet. Anyone can start a program that becomes root, such as
    ``sudo``, under another name and with any words; but its file stays the same, and only root sees which it is."""
    try:
        return Path(os.readlink(f"/proc/{process}/exe")).name == "raylet"
    except OSError:
        return not Path("/proc/self/exe").exists()  # Not Linux.


def _check_node(address: str) -> None:
    """Raise ``UserError`` unless a node of a cluster runs here. Ray looks for it among the processes that this one
    sees, which are those of the same container, and after a minute it blames something else."""
    # A head node that starts answers seconds before its own raylet runs.
    deadline = time.monotonic() + NODE_WITHIN_S
    while all(process.info["name"] != "raylet" for process in psutil.process_iter(["name"])):
        if time.monotonic() < deadline:
            time.sleep(0.2)
            continue
        raise UserError(
            f"no node of the cluster at {address} runs here, on this machine or in this container. Start one that "
            f"trains nothing, and try again: ray start --address={address} --num-cpus=0"
        )


def _check_address(address: str) -> None:
    """Raise ``UserError`` unless something listens at the ``host:port``."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise UserError(
            f"--address {address!r} is not the address of a Ray cluster: write host:port (the head node's "
            "port, 6379 by default), or auto for the cluster that this machine is part of"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_WITHIN_S).close()
    except (OSError, UnicodeError) as error:  # UnicodeError: a host name with an empty or very long part.
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"no Ray cluster answers at {address}: {reason}. Is it running (ray status), and is the "
            "port open to this machine?"
        ) from error


def _job() -> JobConfig:
    """Return the configuration of a job whose workers do not search the working directory first, as Ray's usually do.
    A clone of this project that is not installed has to be found."""
    job = JobConfig(_py_driver_sys_path=[] if is_installed(Path(PROGRAM)) else [PROGRAM])
    job._client_job = True
    return job


def _init(**settings: Any) -> Any:
    return ray.init(logging_level=logging.ERROR, log_to_driver=False, configure_logging=True, **settings)

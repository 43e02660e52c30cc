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
from trainables.contract.finder import PROGRAM, is_installed
from trainables.contract.user_code import give_path_to_children

log = logging.getLogger(__name__)

REACHABLE = ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR
"""Environment variable that specifies where Ray listens. With 1, other machines can reach Ray's ports. With 0, Ray
listens only on 127.0.0.1, as it always does on macOS and Windows."""
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
"""Maximum seconds to wait for a cluster to respond. Ray itself would wait for minutes and then print a long error."""
NODE_WITHIN_S = 10.0
"""Maximum seconds to wait for the raylet of a node that is starting on this machine."""
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
RESERVED_BYTES = 6 << 30
"""Bytes of address space that each Ray process reserves in addition to the object store, as measured with Ray 2.60."""
VITAL_PROCESSES = ("raylet", "gcs_server")
"""Names of the Ray processes without which a sweep cannot continue."""


@dataclass
class RaySession(AbstractContextManager["RaySession"]):
    """Ray on this machine, or an existing cluster. It starts at the first :meth:`begin`. As a context manager, it ends
    Ray on exit.

    Attributes:
        address: Address of the cluster to join, or None to start Ray on this machine.
        dashboard: True to start Ray's dashboard, too.
        keeps_running: True if Ray continues after successful sweeps, because starting it costs about five seconds of a
            core. After a failed sweep Ray ends anyway, because workers may still be running.
        dashboard_url: Address of the dashboard. Empty if Ray has no dashboard.
    """

    address: str | None = None
    dashboard: bool = False
    keeps_running: bool = False
    dashboard_url: str = field(default="", init=False)
    _begun: bool = field(default=False, init=False)
    _before: ExitStack = field(default_factory=ExitStack, init=False)
    _vital: list[psutil.Process] = field(default_factory=list, init=False)

    def begin(self) -> None:
        """Start or join Ray until :meth:`release`.

        Raises:
            UserError: for an invalid address, if no node of the cluster runs here, if this process is already connected
                to Ray, or if `ulimit -v` is too low for Ray.
            SweepError: if Ray does not start, no cluster responds, or the cluster refuses the token.
        """
        if self._begun:
            return
        if ray.is_initialized():
            raise UserError("this process is already connected to Ray: call ray.shutdown() first")
        if self.address is None:
            _check_address_space()
        with ExitStack() as cleanup:
            cleanup.enter_context(environment.without_foreign())
            os.environ.update(ENVIRONMENT)
            protect_token()
            cleanup.enter_context(_listening(everywhere=self.address is not None))
            if self.address is None:
                temporary = cleanup.enter_context(private_directory())
                cleanup.enter_context(fresh_token(temporary.parent))
                self.dashboard_url = _start_here(temporary, dashboard=self.dashboard)
            else:
                _join(self.address)
            cleanup.callback(ray.shutdown)
            if self.address is None:
                children = psutil.Process().children()
                self._vital = [child for child in children if child.name() in VITAL_PROCESSES]
            self._before = cleanup.pop_all()
        self._begun = True
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # The sweep itself reports failed trials.

    @property
    def is_alive(self) -> bool:
        """False if a process of a Ray that this session started has died."""
        return all(map(_is_alive, self._vital))

    def release(self, *, well: bool) -> None:
        """End Ray after a sweep, unless Ray keeps running and the sweep succeeded (``well``)."""
        if not (self.keeps_running and well):
            self.end()

    def end(self) -> None:
        """End Ray, or leave the cluster. A second call does nothing."""
        self._before.close()
        self._vital = []
        self._begun = False

    def __exit__(self, *raised: object) -> None:
        self.end()


@contextmanager
def _listening(*, everywhere: bool) -> Iterator[None]:
    """During the block, choose where Ray listens, unless the user's variable specifies it. Restore the variable
    afterwards, because Ray reads it again at the next start."""
    chosen = os.environ.get(REACHABLE)
    before = ray_constants.ENABLE_RAY_CLUSTER
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
    the stacks have saved checkpoints."""
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
        raise UserError("Ray's dashboard needs more packages: pip install 'ray[default]', or omit --dashboard")


def _check_address_space() -> None:
    """Raise ``UserError`` if processes may not reserve as much address space as Ray's processes do."""
    # Ray's processes would abort with long traces, because they reserve the whole object store at once.
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    needed = resolve_object_store_memory(estimate_available_memory()) + RESERVED_BYTES
    if limit != resource.RLIM_INFINITY and limit < needed:
        raise UserError(
            f"`ulimit -v` allows {limit / 1e9:.1f} GB of address space per process, but Ray reserves about "
            f"{needed / 1e9:.0f} GB (most of it unused). Raise the limit (`ulimit -v unlimited`) or train without Ray "
            "(--engine local)."
        )


def _start_here(temporary: Path, *, dashboard: bool) -> str:
    """Start Ray on this machine, with its files in a temporary directory. Return the address of its dashboard, or an
    empty string if it has no dashboard."""
    os.environ.update({name: os.environ.get(name, value) for name, value in PATIENT.items()})
    give_path_to_children()
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
    """End the processes that Ray has started and left behind, given the temporary directory with its files."""
    ray.shutdown()
    end_processes(temporary.parent)


def _join(address: str) -> None:
    """Join the cluster at an address, or for ``auto`` the cluster to which this machine belongs."""
    if address != "auto":
        _check_address(address)
        _check_node(address)
    elif not os.environ.get("RAY_ADDRESS"):
        address = own_cluster()
    try:
        _init(address=address, job_config=_job())
    except STARTING as error:
        raise SweepError(
            f"no Ray cluster answers at {address!r} ({error}). If it needs a token, set RAY_AUTH_MODE=token, and copy "
            f"the head node's ~/.ray/auth_token to {token_file()}"
        ) from error


def own_cluster() -> str:
    """Return the address of the cluster to which this machine belongs.

    Ray itself would take the first process with the name raylet, of any user, and send it this user's token. For other
    users than root, a node that root has started does not count, because they cannot check which program it is.

    Raises:
        UserError: if this user has started a node of no cluster, or of several.
    """
    addresses = sorted(own_clusters())
    if len(addresses) != 1:
        nodes = f"nodes of {' and '.join(addresses)}" if addresses else "no node of a cluster"
        raise UserError(
            f"--address auto joins the cluster of a node that you have started on this machine, but {nodes} run here. "
            "Specify the cluster as HOST:PORT"
        )
    return addresses[0]


def own_clusters() -> set[str]:
    """Return the address of each cluster that has a node on this machine which this user started. Skip the Ray of a
    sweep."""
    addresses = set()
    for process in psutil.process_iter(["name", "uids", "cmdline"]):
        uids = process.info["uids"]
        is_own = uids is not None and uids.real == os.getuid()
        if process.info["name"] != "raylet" or not is_own or not _runs_raylet(process.pid):
            continue
        arguments = process.info["cmdline"] or ()
        options = dict(item.split("=", 1) for item in arguments if item.startswith("--") and "=" in item)
        address = options.get("--gcs-address")
        if address and not is_private(Path(options.get("--temp_dir", ""))):
            addresses.add(address)
    return addresses


def _runs_raylet(process: int) -> bool:
    """Return True if the program of a process is called raylet."""
    # A process name proves nothing: any user can run a setuid program such as `sudo` under the name `raylet`. So check
    # the executable file, which only root can read for root's processes.
    try:
        return Path(os.readlink(f"/proc/{process}/exe")).name == "raylet"
    except OSError:
        return not Path("/proc/self/exe").exists()  # Not Linux.


def _check_node(address: str) -> None:
    """Raise ``UserError`` unless a node of a cluster runs here."""
    # Ray searches the processes visible in this container. If it finds no node, it fails after a minute with a
    # misleading message. We wait a little, because a head node that starts responds seconds before its raylet runs.
    deadline = time.monotonic() + NODE_WITHIN_S
    while all(process.info["name"] != "raylet" for process in psutil.process_iter(["name"])):
        if time.monotonic() < deadline:
            time.sleep(0.2)
            continue
        raise UserError(
            f"no node of the cluster at {address} runs here, on this machine or in this container. Start a node that "
            f"trains nothing, and try again: ray start --address={address} --num-cpus=0"
        )


def _check_address(address: str) -> None:
    """Raise ``UserError`` unless a program listens at an address ``host:port``."""
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
    """Return the configuration of a job whose workers do not import from the working directory, unlike Ray's default.
    If this project is not installed, the workers import from its directory."""
    job = JobConfig(_py_driver_sys_path=[] if is_installed(Path(PROGRAM)) else [PROGRAM])
    job._client_job = True
    return job


def _init(**settings: Any) -> Any:
    return ray.init(logging_level=logging.ERROR, log_to_driver=False, configure_logging=True, **settings)

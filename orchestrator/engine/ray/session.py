"""Ray session for one or more sweeps, started on this machine or joined, with clear messages on failure."""

from __future__ import annotations

import logging
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import Any, Self

import psutil
import ray
from ray._private import ray_constants
from ray.exceptions import AuthenticationError, RaySystemError
from ray.job_config import JobConfig

from orchestrator import environment, supervisor
from orchestrator.engine.ray.settings import check_start, set_by_user
from orchestrator.engine.ray.temporary_directory import temporary_directory
from orchestrator.engine.ray.token import protect_token, token_file
from orchestrator.errors import SweepError, UserError
from orchestrator.space.hardware import detect

REACHABLE = ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR
"""Variable that opens Ray's ports to other machines if it is 1. If it is 0, Ray uses 127.0.0.1 and listens only there,
as it always does on macOS and Windows."""
ASKED = os.environ.get(REACHABLE)
PATIENT = {
    "RAY_health_check_timeout_ms": "60000",
    "RAY_health_check_failure_threshold": "10",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "300",
    "RAY_gcs_server_request_timeout_seconds": "300",
    "RAY_py_gcs_connect_timeout_s": "120",
    "RAY_worker_register_timeout_seconds": "300",
}
"""Timeouts of Ray's processes for each other. The defaults, 10 to 60 s, are too short for a busy machine and would end
a sweep after hours. The sweep's parent detects dead processes (``supervisor.py``)."""
ANSWER_WITHIN_S = 5.0
"""Seconds for a cluster to answer. Ray itself would wait for minutes and then print a long error."""
REFUSED = b"InvalidAuthToken"
"""Text that Ray's core prints on stderr only if a cluster refuses the token."""
ENVIRONMENT = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # CSV, JSON and TensorBoard files that are never read
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # the sweep's own handler leaves a checkpoint
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",  # the journal has all results
    "TUNE_MAX_PENDING_TRIALS_PG": "1000000",  # CampaignSearcher limits the number
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",  # a failed run's traceback is in its record
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",  # hides GPUs from stacks without a GPU, as StackTrial does
}

DASHBOARD_NEEDS = ("aiohttp", "aiohttp_cors", "colorful", "grpc", "opencensus", "prometheus_client")
"""Modules of the dashboard and its exporters, installed by ``ray[default]``."""
PARTS = ("raylet", "gcs_server")
"""Names of the Ray processes that a sweep cannot continue without."""


class RaySession:
    """Ray on this machine or, with ``address``, an existing cluster. It starts at the first :meth:`begin`.

    As a context manager, it ends Ray on exit. A ``kept`` session continues after successful sweeps, because starting
    Ray costs about five seconds of a core. After a failed sweep Ray ends, since workers may still be running.
    """

    def __init__(self, address: str | None = None, *, dashboard: bool = False, kept: bool = False) -> None:
        self.address = address
        self.dashboard = ""
        """Address of Ray's dashboard, or "" without one."""
        self._with_dashboard = dashboard
        self._kept = kept
        self._begun = False
        self.joined = False
        """True if the session uses a Ray that this process had joined before."""
        self._before = ExitStack()

    def begin(self) -> None:
        """Start or join Ray until :meth:`release`. Raises the errors of :func:`start` and :func:`check_dashboard`."""
        if self._begun:
            return
        if self._with_dashboard:
            check_dashboard(self.address)
        if ray.is_initialized():
            self._join()
            return
        self._before.enter_context(switch_kept())
        self._before.enter_context(environment.without_foreign())
        os.environ.update(ENVIRONMENT)
        try:
            protect_token(missing=self.address is None)
            context = start(self.address, dashboard=self._with_dashboard)
        except BaseException:
            self._before.close()
            raise
        self._begun = True
        self.dashboard = f"http://{context.dashboard_url}" if self._with_dashboard else ""
        if self.address is None:
            supervisor.watch_ray([child for child in psutil.Process().children() if child.name() in PARTS])
        _quieten()

    def _join(self) -> None:
        """Use the Ray that this process has joined. It keeps running. Raises :class:`UserError` for another Ray."""
        if self._with_dashboard:
            raise UserError(
                "this process is already connected to Ray, so no dashboard can be started: omit --dashboard"
            )
        if ray.util.client.ray.is_connected():
            raise UserError("sweeps cannot use Ray Client (ray://): call ray.shutdown(), and give the address")
        current = ray.get_runtime_context().gcs_address
        if self.address not in (None, "auto", current):
            raise UserError(
                f"this process uses the Ray at {current}, but the address is {self.address}: call "
                "ray.shutdown() first, or leave the address out"
            )
        environment.check_packages([environment.working_directory() or ""])  # Ray puts it in front of every library.
        self._before.enter_context(environment.without_foreign())
        os.environ.update(ENVIRONMENT)
        self._begun = self.joined = True
        _quieten()

    def release(self, *, well: bool) -> None:
        """End Ray after a sweep, unless it is kept and the sweep succeeded (``well``)."""
        if not (self._kept and well):
            self.end()

    def end(self) -> None:
        """End Ray or leave the cluster. A second call does nothing."""
        if self._begun and not self.joined:
            supervisor.watch_ray([])
            ray.shutdown()
        self._before.close()
        self._begun = self.joined = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.end()


def _quieten() -> None:
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # The sweep itself reports failed trials.


@contextmanager
def switch_kept() -> Iterator[None]:
    """After the block, restore the settings for the interfaces that Ray listens on. Ray reads its other variables only
    once."""
    before, everywhere = os.environ.get(REACHABLE), ray_constants.ENABLE_RAY_CLUSTER
    try:
        yield
    finally:
        os.environ.pop(REACHABLE, None)
        if before is not None:
            os.environ[REACHABLE] = before
        ray_constants.ENABLE_RAY_CLUSTER = everywhere


def check_dashboard(address: str | None) -> None:
    """Raise :class:`UserError` if Ray's dashboard cannot be started."""
    if address is not None:
        raise UserError(f"no dashboard can be started for the cluster at {address}: omit --dashboard")
    # colorful replaces its own module object, so find_spec fails once it is imported.
    missing = [name for name in DASHBOARD_NEEDS if name not in sys.modules and find_spec(name) is None]
    if missing:
        raise UserError(
            f"Ray's dashboard needs packages that are not installed ({', '.join(missing)}): "
            "pip install 'ray[default]', or leave --dashboard out"
        )


def start(address: str | None, *, dashboard: bool = False) -> Any:
    """Start Ray so that only this machine can reach it, or join the cluster at ``address``.

    Returns:
        The context of ``ray.init``.

    Raises:
        UserError: for an invalid address, or for a variable that keeps Ray from starting.
        SweepError: if Ray does not start, no cluster answers, or the cluster refuses the token.
    """
    chosen = [name for name in set_by_user(os.environ) if os.environ[name] != (ENVIRONMENT | PATIENT).get(name)]
    try:
        return _start(address, dashboard=dashboard)
    except UserError:
        raise
    except Exception as error:
        cause = error.__cause__ or error
        check_start(address, chosen, f"{type(cause).__name__}: {cause}".partition("\n")[0])
        raise


def _start(address: str | None, *, dashboard: bool) -> Any:
    _listen(everywhere=address is not None)
    if address is None:
        os.environ.update({name: os.environ.get(name, value) for name, value in PATIENT.items()})
        # Actors inherit it, so they can import a family from a module in this directory.
        here = environment.working_directory()
        os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, [*sys.path, here])))
        job = JobConfig()
        job._client_job = True  # Otherwise Ray puts the working directory in front of every library.
        # Without an address, Ray would join the cluster that was started last on this machine, by any user.
        shown = {"include_dashboard": dashboard, "dashboard_host": "127.0.0.1"}
        settings = {"address": "local", "job_config": job, **shown}
        temporary = str(temporary_directory() / "ray")
        try:
            # By default Ray counts all cores of the machine, not only those available to this process.
            return _init(**settings, num_cpus=detect().cpus, _temp_dir=temporary)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise SweepError(f"Ray does not start on this machine: {error}") from error
        except Exception as error:
            if type(error) is not Exception:
                raise
            # Ray raises a bare Exception if its raylet has not started within 30 s, which no setting changes.
            raise SweepError(f"Ray does not start on this machine, which may be too busy for it: {error}") from error
    _check_address(address)
    environment.check_packages([environment.working_directory() or ""])  # Ray puts it in front of every library.
    with _stderr() as output:
        try:
            return _init(address=address)
        except AuthenticationError as error:
            raise SweepError(f"RAY_AUTH_MODE is token, but this machine has no token: {_copy_the_token()}") from error
        except (ConnectionError, RuntimeError, ValueError, OSError, RaySystemError) as error:
            output.seek(0)
            if REFUSED in output.read():
                raise SweepError(_refused(address)) from error
            raise SweepError(f"no Ray cluster answers at {address!r}: {error}") from error


def _check_address(address: str) -> None:
    """Raise ``UserError`` unless ``address`` is ``auto`` or a ``host:port`` at which something listens."""
    if address == "auto":
        return
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


def _init(**settings: Any) -> Any:
    return ray.init(logging_level=logging.ERROR, log_to_driver=False, configure_logging=True, **settings)


def _listen(*, everywhere: bool) -> None:
    os.environ[REACHABLE] = ASKED or ("1" if everywhere else "0")
    # Ray reads the variable when it is imported, which may have happened already.
    ray_constants.ENABLE_RAY_CLUSTER = os.environ[REACHABLE].lower() in ("1", "true")


def _refused(address: str) -> str:
    if os.environ.get("RAY_AUTH_MODE", "").lower() != "token":
        return (
            f"the Ray cluster at {address} needs its token, but this machine sent none: set RAY_AUTH_MODE=token, and "
            f"{_copy_the_token()}. (A cluster has a token if one was in that file when it started.)"
        )
    why = "rejected this machine's token, which is not the cluster's"
    return f"the Ray cluster at {address} {why}; {_copy_the_token()}"


def _copy_the_token() -> str:
    return f"copy the head node's ~/.ray/auth_token to {token_file()} (or name another file in RAY_AUTH_TOKEN_PATH)"


@contextmanager
def _stderr() -> Iterator[Any]:
    """Redirect stderr, including that of Ray's core, to a file. Print it at the end unless a token was refused."""
    with tempfile.TemporaryFile() as output:
        before = os.dup(2)
        os.dup2(output.fileno(), 2)
        try:
            yield output
        finally:
            os.dup2(before, 2)
            os.close(before)
            output.seek(0)
            text = output.read()
            if REFUSED not in text:
                os.write(2, text)

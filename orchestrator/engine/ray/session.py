"""Ray for as long as sweeps need it: started on this machine, or joined, with plain words where that fails."""

from __future__ import annotations

import importlib.util
import logging
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Self

import psutil
import ray
from ray._private import ray_constants
from ray._private.authentication.authentication_constants import AUTHORIZATION_BEARER_PREFIX
from ray._private.authentication.http_token_authentication import get_auth_headers_if_auth_enabled
from ray.exceptions import AuthenticationError, RaySystemError
from ray.job_config import JobConfig

from orchestrator import environment, supervisor
from orchestrator.engine.ray.places import protect_token, temporary_directory, token_file
from orchestrator.errors import SweepError, UserError
from orchestrator.space.hardware import detect

REACHABLE = ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR
"""With 0, Ray takes 127.0.0.1 for the machine's address, and everything listens there alone: Ray's own way on macOS and
Windows, and its only switch for it. 1 opens the ports."""
ASKED = os.environ.get(REACHABLE)
PATIENT = {
    "RAY_health_check_timeout_ms": "60000",
    "RAY_health_check_failure_threshold": "10",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "300",
    "RAY_gcs_server_request_timeout_seconds": "300",
    "RAY_py_gcs_connect_timeout_s": "120",
    "RAY_worker_register_timeout_seconds": "300",
}
"""Time that Ray's parts wait for one another, by default 10 to 60 s: too short on a busy machine, and Ray then ends a
sweep of hours. The sweep's parent notices a part that died (``supervisor.py``)."""
ANSWER_WITHIN_S = 5.0
"""Seconds for a cluster to answer before Ray is asked, which itself waits for minutes and fails at length."""
REFUSED = b"InvalidAuthToken"
"""Words of Ray's core on stderr, and nowhere else, when a cluster refuses the token."""
ENVIRONMENT = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # unread CSV, JSON and TensorBoard files
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # the sweep has its own, which leaves a checkpoint
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",  # the journal is the memory
    "TUNE_MAX_PENDING_TRIALS_PG": "1000000",  # CampaignSearcher hands out as many as there is room for
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",  # a failed run's traceback is in its record
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",  # a stack without a GPU sees none; StackTrial does the same
}

PARTS = ("raylet", "gcs_server")
"""Names of Ray's processes that a sweep cannot do without."""

DASHBOARD_NEEDS = ("aiohttp", "aiohttp_cors", "colorful", "grpc", "opencensus", "prometheus_client")
"""Modules that ``ray[default]`` installs and the dashboard and its exporters import."""


class RaySession:
    """Ray on this machine or, with ``address``, the cluster there. Nothing is started before the first :meth:`begin`.

    A session that is ``kept`` outlives the sweeps that end well: starting Ray costs some five seconds of a core, as
    much as training a small sweep. One that failed may leave workers behind, so that Ray ends with it. As a context
    manager it ends Ray with its block.
    """

    def __init__(self, address: str | None = None, *, dashboard: bool = False, kept: bool = False) -> None:
        self.address = address
        self._with_dashboard = dashboard
        self._kept = kept
        self.dashboard = ""
        """Address of Ray's dashboard with the token it asks for; "" without one."""
        self._begun = False
        self.joined = False
        """True while it uses a Ray that this process had joined before."""
        self._before = ExitStack()
        """Puts this process's environment back."""

    def begin(self) -> None:
        """Start Ray, or join it, until :meth:`release`. Raises what :func:`start` does, and :class:`UserError` for a
        dashboard that cannot be had."""
        if self._begun:
            return
        if ray.is_initialized():
            self._join()
            return
        if self._with_dashboard:
            check_dashboard(self.address)
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
        if self.address is None:
            supervisor.watch_ray([each for each in psutil.Process().children() if each.name() in PARTS])
        _quieten()
        self.dashboard = f"http://{context.dashboard_url}" if context.dashboard_url else ""
        if self.dashboard and (token := token_asked()):
            # Its page takes the token from nothing but what is typed into it: no address can carry it.
            self.dashboard += f", which asks for this token, once a browser: {token}"

    def _join(self) -> None:
        """Use the Ray that this process has joined before: in a notebook, or in a script that uses Ray itself. It stays
        when the session ends. Raises :class:`UserError` if it is not the one that was asked for."""
        if ray.util.client.ray.is_connected():
            raise UserError("this process uses Ray by its client (ray://): call ray.shutdown(), and give the address")
        there = ray.get_runtime_context().gcs_address
        if self.address not in (None, "auto", there):
            raise UserError(
                f"this process uses the Ray at {there} already, and the address is {self.address}: call ray.shutdown() "
                "first, or leave the address out"
            )
        if self._with_dashboard:
            raise UserError("this process uses a Ray already, which has a dashboard of its own or none: leave it out")
        environment.check_packages([environment.working_directory() or ""])  # Ray puts it in front of every library.
        self._before.enter_context(environment.without_foreign())
        os.environ.update(ENVIRONMENT)
        self._begun = self.joined = True
        _quieten()

    def release(self, *, well: bool) -> None:
        """A sweep has ended, ``well`` or not: end Ray, unless it is kept."""
        if not (self._kept and well):
            self.end()

    def end(self) -> None:
        """End Ray, or leave the cluster. Nothing happens if it has ended already."""
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
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # Failed trials are reported by the sweep.


def check_dashboard(address: str | None) -> None:
    """Raise :class:`UserError` if ``--dashboard`` cannot be had."""
    if address is not None:
        raise UserError(f"the cluster at {address} has a dashboard of its own or none; leave --dashboard out")
    # One that is loaded need not be looked for, and colorful cannot be: it puts an object in its module's place.
    missing = [name for name in DASHBOARD_NEEDS if name not in sys.modules and importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(
            f"Ray's dashboard needs packages that are not installed ({', '.join(missing)}). Install them with "
            'pip install "ray[default]", or leave --dashboard out.'
        )


@contextmanager
def switch_kept() -> Iterator[None]:
    """A block after which Ray listens as it would have before. The rest of Ray's environment stays: its core reads that
    once in a process."""
    before, everywhere = os.environ.get(REACHABLE), ray_constants.ENABLE_RAY_CLUSTER
    try:
        yield
    finally:
        os.environ.pop(REACHABLE, None)
        if before is not None:
            os.environ[REACHABLE] = before
        ray_constants.ENABLE_RAY_CLUSTER = everywhere


def start(address: str | None, *, dashboard: bool = False) -> Any:
    """Ray's context: of a new Ray on this machine, reachable from it alone, or of the cluster at ``address``.

    Raises :class:`UserError` for an invalid address and :class:`SweepError` if Ray does not start, no cluster answers,
    or it refuses the token.
    """
    _listen(everywhere=address is not None)
    if address is None:
        os.environ.update({name: os.environ.get(name, value) for name, value in PATIENT.items()})
        # Actors inherit it, so that a family found from here (a module in this directory, say) is found there.
        here = environment.working_directory()
        os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, [*sys.path, here])))
        job = JobConfig()
        job._client_job = True  # Else Ray puts the working directory in front of every library.
        # Without an address Ray would join the cluster that was started last on this machine, whosever it is.
        asked = {"address": "local", "include_dashboard": dashboard, "dashboard_host": "127.0.0.1", "job_config": job}
        place = str(temporary_directory() / "ray")
        try:
            # Ray would count the cores of the machine, not those that this process may use.
            return _init(**asked, num_cpus=detect().cpus, _temp_dir=place)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise SweepError(f"Ray does not start on this machine: {error}") from error
        except Exception as error:
            if type(error) is not Exception:
                raise
            # Ray raises just that if its raylet has not come within 30 s, which cannot be made longer.
            raise SweepError(f"Ray does not start on this machine, which may be too busy for it: {error}") from error
    _check_address(address)
    environment.check_packages([environment.working_directory() or ""])  # Ray puts it in front of every library.
    with _stderr() as said:
        try:
            return _init(address=address)
        except AuthenticationError as error:
            raise SweepError(f"RAY_AUTH_MODE is token and there is none here: {_copy_the_token()}") from error
        except (ConnectionError, RuntimeError, ValueError, OSError, RaySystemError) as error:
            said.seek(0)
            if REFUSED in said.read():
                raise SweepError(_refused(address)) from error
            raise SweepError(f"no Ray cluster answers at {address!r}: {error}") from error


def _check_address(address: str) -> None:
    """Raise ``UserError`` unless ``address`` is ``auto`` or a ``host:port`` at which something listens."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise UserError(
            f"--address {address!r} is no address of a Ray cluster: write host:port (the head node's port is 6379 "
            "unless it was started with another), or auto for the cluster this machine is part of"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_WITHIN_S).close()
    except OSError as error:
        raise UserError(
            f"no Ray cluster answers at {address}: {error.strerror or error}. Is it running (ray status), and is the "
            "port open to this machine?"
        ) from error


def _init(**asked: Any) -> Any:
    return ray.init(logging_level=logging.ERROR, log_to_driver=False, configure_logging=True, **asked)


def _listen(*, everywhere: bool) -> None:
    """Have Ray listen on all interfaces, or on loopback alone."""
    os.environ[REACHABLE] = ASKED or ("1" if everywhere else "0")
    # Ray reads it when it is imported, which may have been before.
    ray_constants.ENABLE_RAY_CLUSTER = os.environ[REACHABLE].lower() in ("1", "true")


def _refused(address: str) -> str:
    if os.environ.get("RAY_AUTH_MODE", "").lower() != "token":
        return (
            f"the Ray cluster at {address} asks for its token, and none was sent: set RAY_AUTH_MODE=token, and "
            f"{_copy_the_token()}. (A cluster has a token if one was in that file when it started.)"
        )
    return f"the Ray cluster at {address} refuses the token of this machine: it is another one; {_copy_the_token()}"


def _copy_the_token() -> str:
    return f"copy the head node's ~/.ray/auth_token to {token_file()} (or name another file in RAY_AUTH_TOKEN_PATH)"


def token_asked() -> str:
    """The token that this Ray asks for, its dashboard included; "" if it asks for none."""
    headers = get_auth_headers_if_auth_enabled({})
    return next((str(each).removeprefix(AUTHORIZATION_BEARER_PREFIX) for each in headers.values()), "")


@contextmanager
def _stderr() -> Iterator[Any]:
    """A block whose stderr, that of Ray's core included, goes to a file. At the end it is shown, unless a token was
    refused."""
    with tempfile.TemporaryFile() as said:
        before = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            yield said
        finally:
            os.dup2(before, 2)
            os.close(before)
            said.seek(0)
            text = said.read()
            if REFUSED not in text:
                os.write(2, text)

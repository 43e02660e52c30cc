"""Ray for as long as sweeps need it: for one sweep, or kept for several that are run one after the other."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Self

import psutil
import ray
from ray._private.authentication.authentication_token_generator import generate_new_authentication_token

from orchestrator import supervisor
from orchestrator.engine.ray.starting import start, switch_kept, token_asked, token_file
from orchestrator.errors import UserError

ENVIRONMENT = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # CSV, JSON and TensorBoard files nobody reads
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # the sweep has its own, which leaves something to resume
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",  # the journal is the memory
    "TUNE_MAX_PENDING_TRIALS_PG": "1000000",  # CampaignSearcher hands out as many as there is room for
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",  # a failed run's traceback is in its record
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",  # who asks for no GPU sees none; StackTrial sees to it elsewhere, too
}

TOKENS = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
"""Variables by which somebody has chosen a token, so that Ray writes none."""

PARTS = ("raylet", "gcs_server")
"""Processes of Ray without which nothing goes on, by the beginnings of their names."""

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
        self._dashboard = ""
        self._begun = False
        self._before = ExitStack()
        """Puts this process's environment back."""

    @property
    def dashboard(self) -> str:
        """Where Ray's dashboard is, and what it asks for; "" where there is none."""
        return self._dashboard

    def begin(self) -> None:
        """Have Ray, from now until :meth:`release`. Raises what :func:`start` does, and :class:`UserError` where a
        dashboard is asked for that cannot be had."""
        if self._begun:
            return
        if self._with_dashboard:
            check_dashboard(self.address)
        self._before.enter_context(switch_kept())
        os.environ.update(ENVIRONMENT)
        protect_token(missing=self.address is None)
        try:
            context = start(self.address, dashboard=self._with_dashboard)
        except BaseException:
            self._before.close()
            raise
        self._begun = True
        if self.address is None:
            supervisor.watch_ray([each for each in psutil.Process().children() if each.name() in PARTS])
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # Failed trials are reported by the sweep.
        self._dashboard = f"http://{context.dashboard_url}" if context.dashboard_url else ""
        if self._dashboard and (token := token_asked()):
            # Its page takes the token from nothing but what is typed into it: no address can carry it.
            self._dashboard += f", which asks for this token, once a browser: {token}"

    def release(self, *, well: bool) -> None:
        """A sweep has ended, ``well`` or not: end Ray, unless it is kept."""
        if not (self._kept and well):
            self.end()

    def end(self) -> None:
        """End Ray, or leave the cluster. Nothing happens where it has ended already."""
        if self._begun:
            supervisor.watch_ray([])
            ray.shutdown()
            self._before.close()
            self._begun = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


def protect_token(*, missing: bool) -> None:
    """Keep the token that guards Ray's ports to this user; where it is ``missing``, write one. Ray would, as it starts,
    so that all users of the machine may read it."""
    token = token_file()
    missing &= os.environ.get("RAY_AUTH_MODE", "token").lower() == "token"
    with suppress(OSError):  # It is somebody else's to protect (a mounted secret, say), or Ray will say what is wrong.
        if missing and not any(map(os.environ.get, TOKENS)) and not token.exists():
            token.parent.mkdir(parents=True, exist_ok=True)
            with open(os.open(token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
                file.write(generate_new_authentication_token())
        token.chmod(0o600)


def check_dashboard(address: str | None) -> None:
    """Raise :class:`UserError` where ``--dashboard`` cannot be had."""
    if address is not None:
        raise UserError(f"the cluster at {address} has a dashboard of its own or none; leave --dashboard out")
    # One that is loaded need not be looked for, and colorful cannot be: it puts an object in its module's place.
    missing = [name for name in DASHBOARD_NEEDS if name not in sys.modules and importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(
            f"Ray's dashboard needs packages that are not installed ({', '.join(missing)}). Install them with "
            'pip install "ray[default]", or leave --dashboard out.'
        )

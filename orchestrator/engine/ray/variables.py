"""Checks of Ray's environment variables. Ray ends the process or raises an arbitrary error for a bad value of one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping

from orchestrator.environment import ROOT
from orchestrator.errors import UserError

OF_RAY = re.compile("RAY_(?!(ADDRESS|TMPDIR|AUTH_.*)$).+")
"""Ray's variables, except those that this program checks itself."""
BY_RAY = {("RAY_CLIENT_MODE", "0"), ("RAY_USAGE_STATS_ENABLED", "0"), ("RAY_USAGE_STATS_ENABLED", "1")}
"""Variables and values that Ray sets itself when it is imported or started."""
IMPORT = "import ray.dag, ray.tune"
"""Program that imports Ray, including the modules that Ray imports at exit."""
START = "import sys\nfrom orchestrator.engine.ray.session import RaySession\nRaySession(sys.argv[1] or None).begin()"
"""Program that starts Ray, or joins the cluster at an address."""
WITHIN_S = 300.0
"""Time limit in seconds for these programs. Two busy cores need 40 s to start Ray."""


def set_by_user(environment: Mapping[str, str]) -> list[str]:
    """Return the names of Ray's variables in an environment, except those that Ray itself sets."""
    return sorted(name for name, value in environment.items() if OF_RAY.fullmatch(name) and (name, value) not in BY_RAY)


def check_readable(environment: Mapping[str, str]) -> None:
    """Check in a separate process that Ray can be imported in an environment, since Ray's core may end the process.
    Raises :class:`UserError` with the names of the variables that Ray cannot parse."""
    names = set_by_user(environment)
    if not names or not (problem := _problem(IMPORT, environment)):
        return
    unreadable = [name for name in names if _problem(IMPORT, _without(environment, set(names) - {name}))]
    if unreadable or not _problem(IMPORT, _without(environment, names)):
        raise UserError(f"Ray cannot read {_named(unreadable or names)} ({problem})")


def check_start(address: str | None, names: Iterable[str], problem: str) -> None:
    """Check whether these variables keep Ray from starting here or from joining the cluster at ``address``. Raises
    :class:`UserError` with the names of the variables if Ray starts without them."""
    names = sorted(names)
    if names and not _problem(START, _without(os.environ, names), address or ""):
        raise UserError(f"Ray does not start with {_named(names)} ({problem})")


def _named(names: list[str]) -> str:
    return f"{', '.join(names)} in this environment: correct or unset {'it' if len(names) == 1 else 'them'}"


def _without(environment: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in set(names)}


def _problem(code: str, environment: Mapping[str, str], *arguments: str) -> str:
    """Return the error of a program in an environment, or "" if it succeeds."""
    command = [sys.executable, "-P", "-c", code, *arguments]
    path = os.pathsep.join(dict.fromkeys(filter(None, [*sys.path, ROOT])))
    try:
        done = subprocess.run(
            command, env={**environment, "PYTHONPATH": path}, capture_output=True, timeout=WITHIN_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it takes more than {WITHIN_S:.0f} s"
    if done.returncode < 0:
        return f"its process ends with {signal.Signals(-done.returncode).name}"
    lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
    return lines[-1] if done.returncode else ""

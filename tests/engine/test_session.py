"""One Ray instance for several sweeps."""

from __future__ import annotations

import urllib.request

import psutil
import pytest
import ray

from orchestrator.engine.ray.engine import RayEngine
from orchestrator.engine.ray.session import PATIENT, RaySession
from orchestrator.errors import UserError
from orchestrator.space.resources import Resources


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
    with RaySession(kept=True) as session:
        assert not ray.is_initialized()  # No sweep has asked for Ray yet.
        with RayEngine(Resources(), session):
            first = node()
            at = {name: addresses - before.get(name, set()) for name, addresses in listening().items()}
            gcs = next(item for item in psutil.Process().children() if item.name() == "gcs_server")
            assert {name: gcs.environ().get(name) for name in PATIENT} == PATIENT
        assert at["gcs_server"]
        assert at["raylet"]
        used = {address.removeprefix("::ffff:") for addresses in at.values() for address in addresses}
        assert used == {"127.0.0.1"}
        with RayEngine(Resources(), session) as engine:
            assert node() == first
            assert "Ray on this machine: 1 node" in engine.describe()
        with pytest.raises(ZeroDivisionError), RayEngine(Resources(), session):
            1 / 0  # noqa: B018
        assert not ray.is_initialized()
        with RayEngine(Resources(), session):
            assert node() != first
    assert not ray.is_initialized()


def test_a_ray_of_the_users_own_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    with pytest.raises(UserError, match=r"call ray\.shutdown\(\) first"):
        RaySession().begin()


@pytest.mark.night
def test_the_dashboard_answers_on_loopback() -> None:
    pytest.importorskip("opencensus")
    with RaySession(dashboard=True) as session:
        session.begin()
        assert session.dashboard_url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(session.dashboard_url, timeout=60) as answer:
            assert b"Ray Dashboard" in answer.read()

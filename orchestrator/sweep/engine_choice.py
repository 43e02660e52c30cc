"""Makes the engine that the options of a command ask for, and packs the code that it sends to a cluster."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from orchestrator.engine.engine import Engine
from orchestrator.engine.shipping import NOTHING, Shipment, pack
from orchestrator.space.spec import SweepSpec
from orchestrator.sweep.run_options import RunOptions
from orchestrator.system.errors import UserError

log = logging.getLogger(__name__)


def make_engine(options: RunOptions, shipment: Shipment | None) -> Engine:
    """Return the engine of ``--engine``, whose workers can import the code of a shipment."""
    if options.local:
        from orchestrator.engine.local_engine import LocalEngine

        return LocalEngine()
    from orchestrator.engine.ray.engine import RayEngine  # Ray takes a second to import; local sweeps do not need it.
    from orchestrator.engine.ray.session import RaySession

    if shipment is not None:
        log.info(shipment.description)
    return RayEngine(RaySession(options.address, dashboard=options.dashboard), shipment or NOTHING)


def shipment_of(specs: Sequence[SweepSpec], options: RunOptions) -> Shipment | None:
    """Return the user's code to send to the nodes of a cluster, or None without ``--ship``.

    Raises:
        UserError: if there is no code to send, or more than :data:`orchestrator.engine.shipping.LARGEST_SHIPMENT`.
    """
    if not options.ship:
        return None
    if any(spec.script is not None for spec in specs):
        raise UserError("--ship cannot ship a script, which runs by its path: put its folder on every node")
    return pack([name for spec in specs for name in (spec.family, *spec.probes)], leave_out=options.home)

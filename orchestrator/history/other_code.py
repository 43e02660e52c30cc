"""Finished runs that were trained by other code: an earlier version of their family, or a source that has changed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from orchestrator.history.journal import Begun, Ended, read_journal
from orchestrator.history.sweeps import Sweep
from orchestrator.home.checkpoints import Checkpoints
from orchestrator.home.directories import Home
from orchestrator.home.run_files import read_origin
from orchestrator.space.spec import SweepSpec
from orchestrator.system.errors import UserError


def check_resumed(sweep: Sweep, *, retry_failed: bool) -> str:
    """Return a warning if the code of a sweep to resume has changed since it started, or "".

    Raises :class:`UserError` if its family has another version, because one pair would contain runs of both, or if the
    space refuses other code. To train failed runs again, the code usually had to be corrected.
    """
    spec, now = sweep.spec, sweep.spec.family_class.version
    keys = {entry.request: entry.key for entry in read_journal(sweep.files.journal) if isinstance(entry, Ended)}
    family = spec.make_family()
    is_other = sweep.version not in (0, now)
    if is_other or any(family.key(spec.config(request)) != key for request, key in keys.items()):
        was = f", but had {sweep.version} when it started" if is_other else ""
        raise UserError(
            f"{sweep.id} cannot be resumed: {spec.family} has version {now}{was}, so its runs have other keys now. "
            f"Restore that code, or leave --resume out: a new sweep trains all runs with version {now}"
        )
    others = _of_other_code(spec, sweep.files.home, keys.values())
    has_checkpoints = sweep.source not in ("", spec.source) and Checkpoints(sweep.files.checkpoints).stacks()
    if not others and not has_checkpoints:
        return ""
    change = _change(spec, sweep.files.home, others or [sweep.id])
    if spec.code == "warn" or retry_failed:
        why = "code=warn" if spec.code == "warn" else "--retry-failed"
        return f"{change} since {sweep.id} started; its finished runs are kept, because of {why}"
    raise UserError(
        f"{sweep.id} cannot be resumed: {change}. Restore that code. Or leave --resume out, and either raise `version` "
        "in the class or give --fresh to train every run again. If both train alike, add --set code=warn"
    )


def check_reused(spec: SweepSpec, home: Home) -> str:
    """Return a warning if a new sweep would reuse runs of other code, or "". Raises :class:`UserError` if the space
    refuses them."""
    if not spec.source:
        return ""
    keys = spec.requests_by_key().keys()
    others = _of_other_code(spec, home, keys)
    if not others:
        return ""
    many = f"{len(others)} finished run{'s' if len(others) > 1 else ''} of this sweep in {home.root}"
    change = _change(spec, home, others)
    if spec.code == "warn":
        return f"{change}; {many} from before are reused, because of code=warn"
    raise UserError(
        f"{change}, and {many} would be reused. Raise `version` in the class, or give --fresh, to train them again. "
        "If both train alike, add --set code=warn"
    )


def _of_other_code(spec: SweepSpec, home: Home, keys: Iterable[str]) -> list[str]:
    """Return the sweep of each stored run among ``keys`` whose family had another source. Unknown sources are equal."""
    if not spec.source:
        return []
    origins = (read_origin(home.runs / key) for key in keys)
    return [origin.sweep for origin in origins if origin is not None and origin.source not in ("", spec.source)]


def _change(spec: SweepSpec, home: Home, sweep_ids: Iterable[str]) -> str:
    """Return a clause that the code has changed, or that the runs are of another folder."""
    folders = {folder for sweep_id in dict.fromkeys(sweep_ids) if (folder := _folder(home, sweep_id))}
    elsewhere = sorted(folder for folder in folders if Path(folder) != Path(spec.folder))
    if elsewhere:
        return f"the code of {spec.family} in {spec.folder} differs from that in {elsewhere[0]}"
    return f"the code of {spec.family} in {spec.folder} has changed"


def _folder(home: Home, sweep_id: str) -> str:
    """Return the folder of a sweep's family, or "" if it is unknown."""
    begun = next(read_journal(home.sweep(sweep_id).journal), None)
    return begun.folder if isinstance(begun, Begun) else ""

"""Finished runs that other code trained: an earlier version of their family, or a source that has changed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from orchestrator.history.journal import Begun, Ended, read_journal
from orchestrator.history.sweeps import Sweep
from orchestrator.home.checkpoints import Checkpoints
from orchestrator.home.directories import Home
from orchestrator.home.run_files import read_origin
from orchestrator.search.base import Request
from orchestrator.space.spec import SweepSpec
from orchestrator.system.errors import UserError


def check_resumed(sweep: Sweep, *, retry_failed: bool) -> str:
    """Return a warning if the code of a sweep to resume has changed since it started. Return an empty string if not.

    Args:
        sweep: The sweep.
        retry_failed: True if failed runs are trained again. Then changed code is allowed, because the user usually
            had to correct it.

    Raises:
        UserError: If the family has another version, because one pair could then contain runs that both versions
            trained. Also if the code has changed and the space does not allow that.
    """
    spec = sweep.spec
    if has_other_keys(spec, sweep):
        now = spec.family_class.version
        was = f", but had {sweep.version} when it started" if _is_other_version(spec, sweep) else ""
        raise UserError(
            f"{sweep.id} cannot be resumed: {spec.family} has version {now}{was}, so its runs have other keys now. "
            f"Restore that code, or omit --resume: a new sweep trains all runs with version {now}"
        )
    others = _sweeps_of_other_code(spec, sweep)
    if not others:
        return ""
    change = _change(spec, sweep.files.home, others)
    if spec.code == "warn" or retry_failed:
        why = "code=warn" if spec.code == "warn" else "--retry-failed"
        return f"{change} since {sweep.id} started; its finished runs are kept, because of {why}"
    raise UserError(
        f"{sweep.id} cannot be resumed: {change}. Either restore that code, or start a new sweep (omit --resume) and "
        "raise `version` or pass --fresh. If both versions train identically, add --set code=warn."
    )


def has_other_keys(spec: SweepSpec, sweep: Sweep) -> bool:
    """Return True if the present family of a specification gives other keys to the runs of a sweep. Then the sweep
    would train all its runs again.

    Keys contain the version. They also differ if the family computes them in another way now.
    """
    family = spec.make_family()
    keys = _keys(sweep)
    return _is_other_version(spec, sweep) or any(
        family.key(sweep.spec.config(request)) != key for request, key in keys.items()
    )


def check_shown(spec: SweepSpec, sweep: Sweep) -> str:
    """Return a warning if other code trained the runs of a sweep that stands for a new one. Return an empty string if
    not.

    Args:
        spec: The specification of the new sweep, with the present code.
        sweep: The stored sweep, whose answer is shown or whose runs are kept.

    Raises:
        UserError: If the space does not allow such runs.
    """
    others = _sweeps_of_other_code(spec, sweep)
    if not others:
        return ""
    change = _change(spec, sweep.files.home, others)
    if spec.code == "warn":
        return f"{change} since {sweep.id} started; its answer and its finished runs count, because of code=warn"
    raise UserError(
        f"{change}, and {sweep.id} would stand for the present code. To train its runs again, raise `version` in the "
        "class, or start a new sweep with `run --fresh`. If both versions train identically, add --set code=warn."
    )


def check_reused(spec: SweepSpec, home: Home) -> str:
    """Return a warning if a new sweep would reuse runs that other code trained. Return an empty string if not.

    Raises:
        UserError: If the space does not allow such runs.
    """
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
        f"{change}, and {many} would be reused. To train them again, raise `version` in the class, or pass --fresh. "
        "If both versions train identically, add --set code=warn."
    )


def _keys(sweep: Sweep) -> dict[Request, str]:
    """Return the key of each finished run of a sweep."""
    return {entry.request: entry.key for entry in read_journal(sweep.files.journal) if isinstance(entry, Ended)}


def _is_other_version(spec: SweepSpec, sweep: Sweep) -> bool:
    """Return True if a sweep started with another version of the family. An unknown version counts as equal."""
    return sweep.version not in (0, spec.family_class.version)


def _sweeps_of_other_code(spec: SweepSpec, sweep: Sweep) -> list[str]:
    """Return the sweep of each finished run of ``sweep`` that other code than the specification's trained."""
    others = _of_other_code(spec, sweep.files.home, _keys(sweep).values())
    if others or sweep.source in ("", spec.source):
        return others
    # Before its first run ends, only checkpoints show that the sweep has trained with the old code.
    return [sweep.id] if Checkpoints(sweep.files.checkpoints).stacks() else []


def _of_other_code(spec: SweepSpec, home: Home, keys: Iterable[str]) -> list[str]:
    """Return, for each stored run in ``keys`` that a different version of the code trained, its sweep. An unknown
    source counts as equal."""
    if not spec.source:
        return []
    origins = (read_origin(home.runs / key) for key in keys)
    return [origin.sweep for origin in origins if origin is not None and origin.source not in ("", spec.source)]


def _change(spec: SweepSpec, home: Home, sweep_ids: Iterable[str]) -> str:
    """Return a clause that says whether the code has changed, or whether code in another folder trained the runs."""
    folders = {folder for sweep_id in dict.fromkeys(sweep_ids) if (folder := _folder(home, sweep_id))}
    elsewhere = sorted(folder for folder in folders if Path(folder) != Path(spec.folder))
    if elsewhere:
        return f"the code of {spec.family} in {spec.folder} differs from the code in {elsewhere[0]}"
    return f"the code of {spec.family} in {spec.folder} has changed"


def _folder(home: Home, sweep_id: str) -> str:
    """Return the folder of a sweep's family, or an empty string if it is unknown."""
    begun = next(read_journal(home.sweep(sweep_id).journal), None)
    return begun.folder if isinstance(begun, Begun) else ""

"""Finished runs that other code trained: an earlier version of their family, or a source that has changed.

Changed code of a user's family is refused by default. Two other changes only get a warning: this project's own code
changes with each release, and the version of a built-in family says when its runs differ. And we do not know whether a
script runs the other programs in its directory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from orchestrator.history.journal import Begun, Ended, read_journal
from orchestrator.history.sweeps import Sweep
from orchestrator.home.checkpoints import Checkpoints
from orchestrator.home.directories import Home
from orchestrator.home.run_files import read_origin
from orchestrator.home.run_store import RunStore
from orchestrator.search.base import Request
from orchestrator.space.spec import SweepSpec
from orchestrator.system.errors import UserError
from trainables.contract.sources import hash_of_training_code
from trainables.script.code import with_code

REMEDY_OF_SCRIPTS = "If the script runs them, pass --fresh, and list them under `script: code`"
"""What to do if other programs in the project of a script have changed."""


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
        return _change_warning(spec, sweep.files.home, _keys(sweep).values()) or _checkpoint_warning(spec, sweep)
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


def has_other_script(spec: SweepSpec) -> bool:
    """Return True if the code of a specification's script is not the present code. A sweep with the present code then
    has other settings, so it cannot resume the sweep of the specification."""
    return spec.script is not None and with_code(spec.script).code_hash != spec.script.code_hash


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
        return _change_warning(spec, sweep.files.home, _keys(sweep).values())
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
    keys = spec.requests_by_key().keys()
    others = _of_other_code(spec, home, keys)
    if not others:
        return _change_warning(spec, home, keys)
    many = f"{len(others)} finished run{'s' if len(others) > 1 else ''} of this sweep in {home.root}"
    change = _change(spec, home, others)
    if spec.code == "warn":
        return f"{change}; {many} from before are reused, because of code=warn"
    raise UserError(
        f"{change}, and {many} would be reused. To train them again, raise `version` in the class, or pass --fresh. "
        "If both versions train identically, add --set code=warn."
    )


def code_note(sweep: Sweep) -> str:
    """Return a note if the family's code has changed since a sweep started. Return an empty string if it has not, or if
    the code is unknown. Commands that read a sweep ask its family for parameters, bars and words."""
    spec = sweep.spec
    is_other = bool(spec.source) and sweep.source not in ("", spec.source)
    if not (is_other or _is_other_version(spec, sweep)):
        return ""
    return (
        f"the code of {spec.family} has changed since {sweep.id} started; what it computes from runs, such as "
        "parameters, bars and new probes, is that of the present code"
    )


def different_code_notes(sweeps: Sequence[Sweep]) -> list[str]:
    """Return a note for each family or script whose code differs between these sweeps. The code that is known of a
    script is one of its settings, so only other files in its project count here."""
    sources: dict[str, set[str]] = {}
    for sweep in sweeps:
        script = sweep.spec.script
        if script is None and sweep.source:
            sources.setdefault(sweep.spec.family, set()).add(sweep.source)
        elif script is not None and sweep.nearby:
            sources.setdefault(f"the project of the script in {script.directory}", set()).add(sweep.nearby)
    return [
        f"these sweeps trained different code of {family}, so they may differ because of the code"
        for family, hashes in sorted(sources.items())
        if len(hashes) > 1
    ]


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
    here = f"the code of {spec.family} in {spec.folder}" if spec.folder else f"the code of {spec.family}"
    return f"{here} differs from the code in {elsewhere[0]}" if elsewhere else f"{here} has changed"


def _folder(home: Home, sweep_id: str) -> str:
    """Return the folder of a sweep's family, or an empty string if it is unknown."""
    begun = next(read_journal(home.sweep(sweep_id).journal), None)
    return begun.folder if isinstance(begun, Begun) else ""


def _checkpoint_warning(spec: SweepSpec, sweep: Sweep) -> str:
    """Return a warning if other programs in the project of a script changed since a sweep began that has only
    checkpoints. Return an empty string otherwise."""
    now = spec.family_source.hash_nearby()
    if not now or sweep.nearby in ("", now) or not Checkpoints(sweep.files.checkpoints).stacks():
        return ""
    change = spec.family_source.changed_nearby(sweep.created)
    return f"{change} since {sweep.id} began; its interrupted runs continue. {REMEDY_OF_SCRIPTS}"


def _change_warning(spec: SweepSpec, home: Home, keys: Iterable[str]) -> str:
    """Return a warning if this project's code for training or, for a script, other programs in its directory changed
    after some of these runs ended. Return an empty string if we know of no such run."""
    stored = set(RunStore(home).stored_keys())  # A space may have many more runs than a home.
    origins = [origin for key in keys if key in stored and (origin := read_origin(home.runs / key)) is not None]
    if spec.script is not None:
        now = spec.family_source.hash_nearby()
        others = [origin for origin in origins if now and origin.nearby not in ("", now)]
        change = spec.family_source.changed_nearby(min(origin.ended for origin in others)) if others else ""
        remedy = REMEDY_OF_SCRIPTS
    elif not spec.source:
        others = [origin for origin in origins if origin.source not in ("", hash_of_training_code())]
        change = "Orchestrator's own code for training has changed (another commit, or your edits)"
        remedy = "If results may differ, pass --fresh, or raise `version` in the class"
    else:
        return ""
    if not others:
        return ""
    many = f"{len(others)} finished run{'s' if len(others) > 1 else ''}"
    return f"{change} since {many} of this sweep ended; they count as before. {remedy}"

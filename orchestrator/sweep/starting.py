"""Before a sweep starts: check that it can be trained here, find the sweep that it resumes or extends, and create its
home."""

from __future__ import annotations

import stat
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.catalog.reading import find_sweep
from orchestrator.history.extend import continued_blocks, continued_spec, reusable
from orchestrator.history.other_code import check_resumed, check_reused
from orchestrator.history.resume import check_same, find_unfinished
from orchestrator.history.sweeps import Sweep, load_sweep
from orchestrator.home.directories import Home
from orchestrator.home.new_home import make_home
from orchestrator.home.ownership import check_own
from orchestrator.home.trusted_code import script_flaw
from orchestrator.record.mlflow_store import choose_store
from orchestrator.space.spec import SweepSpec
from orchestrator.sweep.run_options import RunOptions
from orchestrator.system import hardware
from orchestrator.system.environment import scratch
from orchestrator.system.errors import UserError
from orchestrator.system.hardware import Hardware, has_gpu_driver
from orchestrator.system.permissions import closing_command, places_of_others, sharing_text
from trainables.contract.finder import MAIN


def check_room(spec: SweepSpec, hardware: Hardware, address: str | None) -> None:
    """Check that a machine has room for the stacks of a sweep.

    Raises:
        UserError: if no machine has the cores or GPUs for a stack, or if this machine has no scratch directory.
        SettingsError: if the device of the stacks cannot train a mix with its settings.
    """
    resources = spec.resources
    where = f"at {address}" if address else "here"
    if address is None:
        scratch(resources.scratch)
    if resources.gpu_per_stack and not hardware.gpus and not hardware.grows:
        share = resources.gpu_per_stack
        needs = "a share of a GPU" if isinstance(share, str) else f"{share:g} GPU"
        has_driver = address is None and has_gpu_driver()
        hint = " (a driver is installed, but torch cannot use it: see `doctor`)" if has_driver else ""
        raise UserError(
            f"each stack of this sweep needs {needs}, but no GPU was found {where}{hint}. Pass the --address of a "
            "Ray cluster with GPUs, another --profile, or --set resources.gpu_per_stack=0 to train on the CPU, slowly."
        )
    for name, share, available, what, hint in (
        ("cpu_per_stack", resources.cpu_per_stack, hardware.cpus, "CPU cores", ""),
        ("gpu_per_stack", resources.gpu_per_stack, hardware.gpus, "GPUs", "; 0 trains on the CPU"),
    ):
        if isinstance(share, float) and share > available and not hardware.grows:
            raise UserError(
                f"resources.{name} is {share:g}, but only {available} {what} were found: set it to at most "
                f"{available}{hint}"
            )
    spec.check_device()


def check_startable(spec: SweepSpec, options: RunOptions, machine: Hardware | None = None) -> None:
    """Check that workers can import the family, and that a machine has room for the stacks of a sweep.

    Args:
        spec: The sweep.
        options: Options of its command.
        machine: Hardware to check, by default this machine's. The hardware of a cluster may be unknown.

    Raises:
        UserError: if one of the two is not the case.
    """
    if spec.family.startswith(f"{MAIN}:") and not options.local:
        raise UserError(
            f"Ray's workers cannot import {spec.family} from a script or notebook. Move the class into a separate file "
            "next to it and write the name of that module, or train with --engine local"
        )
    spec.check_startable()
    if options.address is None or machine is not None:  # Otherwise the hardware is not known yet.
        check_room(spec, machine or hardware.detect(), options.address)


@dataclass(frozen=True)
class EarlierSweeps:
    """The sweep that a new command resumes or extends.

    Attributes:
        resumed: The sweep to resume, or None.
        extended: The sweep to extend, or None.
        warning: A warning if other code trained the runs that the sweep reuses, otherwise an empty string.
    """

    resumed: Sweep | None = None
    extended: Sweep | None = None
    warning: str = ""


def find_earlier(spec: SweepSpec, home: Home, options: RunOptions) -> EarlierSweeps:
    """Return the sweep that a sweep resumes or extends. There is at most one, because --resume and --extend exclude
    each other.

    Raises:
        UserError: if the home is not this user's own, if the sweep is missing, too different or running, or if the
            space refuses the runs that other code trained.
    """
    check_own(home.root)
    resumed = _find_resumed(spec, home, options)
    if resumed is not None:
        current = replace(resumed, spec=resumed.spec.substitute(code=spec.code))
        return EarlierSweeps(resumed=resumed, warning=check_resumed(current, retry_failed=options.retry_failed))
    if options.extend is not None:
        extended = load_sweep(home, find_sweep(home, options.extend))
        continued = continued_spec(spec, extended)
        reusable(continued, extended)
        continued_blocks(continued, extended)
        return EarlierSweeps(extended=extended, warning=check_reused(continued, home))
    return EarlierSweeps(warning="" if options.fresh else check_reused(spec, home))


def _find_resumed(spec: SweepSpec, home: Home, options: RunOptions) -> Sweep | None:
    """Return the sweep that --resume names, or the newest unfinished sweep if --resume names none. Return None if there
    is no unfinished sweep, or without --resume.

    Raises:
        UserError: if the sweep cannot be resumed.
    """
    if options.resume:
        resumed = load_sweep(home, find_sweep(home, options.resume))
        check_same(spec, resumed)
    elif options.resume is not None and (unfinished := find_unfinished(spec, home)) is not None:
        resumed = unfinished
    else:
        return None
    resumed.files.check_free()
    if spec.script is not None and resumed.files.is_imported:
        raise UserError(
            f"{resumed.id} cannot be resumed: it came with an archive, and the files that its script left may contain "
            "another user's code. Omit --resume: a new sweep reuses its finished runs"
        )
    if spec.script is not None and (flaw := script_flaw(spec.to_dict()["script"])):
        raise UserError(f"{resumed.id} cannot be resumed: {flaw}")
    return resumed


def prepare_home(spec: SweepSpec, home: Home, options: RunOptions) -> None:
    """Create the home, unless it exists.

    Raises:
        UserError: if the home cannot be created, if its MLflow store cannot be used, or if another user could make the
            sweep's script write to other files.
    """
    if options.record == "mlflow":
        choose_store(home.root)  # First, so that no home is created if its store is refused.
    make_home(home.root)
    if spec.script is not None:
        _check_alone(home)


def _check_alone(home: Home) -> None:
    """Raise :class:`UserError` if another user can replace directories of a home. A script opens its files there by
    their paths, so the other user could make it write to other files of this user."""
    for directory in filter(Path.is_dir, (home.root, home.root / "sweeps")):
        if words := sharing_text(directory):
            raise UserError(
                f"{directory} {words}, who could make a script write to other files of yours. Use another --home, or "
                f"remove that permission ({closing_command(directory)})"
            )
    for place in places_of_others(home.root.resolve()):
        # The owner of a disk, or of a project in a container, may be a user that the administrator chose. A directory
        # that members of a team can write is one for everyday work.
        if place.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise UserError(
                f"other users can write {place}, who could put another directory in the place of {home.root} and make "
                "a script write to other files of yours: pass another --home"
            )

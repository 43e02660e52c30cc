"""Before a sweep starts: whether this machine can train it, and the earlier sweeps that it resumes or extends."""

from __future__ import annotations

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
from orchestrator.record.mlflow_store import choose
from orchestrator.space.spec import SweepSpec
from orchestrator.sweep.run_options import RunOptions
from orchestrator.system import hardware
from orchestrator.system.environment import scratch
from orchestrator.system.errors import UserError
from orchestrator.system.hardware import Hardware, has_gpu_driver
from orchestrator.system.permissions import closing, shared_words
from trainables.contract.finder import MAIN


def check_room(spec: SweepSpec, hardware: Hardware, address: str | None) -> None:
    """Raise :class:`UserError` if no machine has the cores or GPUs for a stack, or if this machine has no scratch
    directory, and ``SettingsError`` if the device of the stacks cannot train a mix with its settings."""
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
            f"each stack of this sweep needs {needs}, but no GPU was found {where}{hint}. Give the --address of a Ray "
            "cluster with GPUs, another --profile, or --set resources.gpu_per_stack=0 to train on the CPU, slowly."
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


@dataclass(frozen=True)
class Earlier:
    """The sweeps that a sweep resumes and extends, and a warning if their runs were trained by other code, or ""."""

    resumed: Sweep | None
    extended: Sweep | None
    warning: str


def earlier_sweeps(spec: SweepSpec, home: Home, options: RunOptions, machine: Hardware | None = None) -> Earlier:
    """Return the sweeps that a sweep resumes (the newest unfinished one if the id is "") and extends, and create the
    home.

    ``machine`` is the hardware to check, by default this machine's; that of a cluster may be unknown. Raises
    :class:`UserError` if the machine lacks room, if workers cannot import the family, if the home is not this
    user's own, if a sweep is missing, too different or running, or if runs of other code are refused.
    """
    if spec.family.startswith(f"{MAIN}:") and not options.local:
        raise UserError(
            f"Ray's workers cannot import {spec.family} from a script or notebook: move the class into a file of its "
            "own next to it, and name that module, or train with --engine local"
        )
    spec.check_startable()
    if options.address is None or machine is not None:  # Otherwise the hardware is not known yet.
        check_room(spec, machine or hardware.detect(), options.address)
    check_own(home.root)
    resumed = extended = None
    warning = ""
    if options.resume:
        resumed = load_sweep(home, find_sweep(home, options.resume))
        check_same(spec, resumed)
    elif options.resume is not None:
        resumed = find_unfinished(spec, home)
    if resumed is not None:
        resumed.files.check_free()
        if spec.script is not None and resumed.files.is_imported:
            raise UserError(
                f"{resumed.id} cannot be resumed: it came with an archive, and the files that its script left may "
                "contain another user's code. Leave --resume out: a new sweep reuses its finished runs"
            )
        current = replace(resumed, spec=resumed.spec.substitute(code=spec.code))
        warning = check_resumed(current, retry_failed=options.retry_failed)
    if options.extend is not None:
        extended = load_sweep(home, find_sweep(home, options.extend))
        continued = continued_spec(spec, extended)
        reusable(continued, extended)
        continued_blocks(continued, extended)
        warning = check_reused(continued, home)
    elif resumed is None and not options.fresh:
        warning = check_reused(spec, home)
    if options.record == "mlflow":
        choose(home.root)  # A home that it refuses is not created.
    make_home(home.root)
    if spec.script is not None:
        _check_alone(home)
    return Earlier(resumed, extended, warning)


def _check_alone(home: Home) -> None:
    """Raise :class:`UserError` if another user can replace directories of a home. A script opens its files there by
    their paths, so that user could make it write to other files of this one."""
    for place in filter(Path.is_dir, (home.root, home.root / "sweeps")):
        if words := shared_words(place):
            raise UserError(
                f"{place} {words}, who could make a script write to other files of yours: name another --home, or "
                f"remove that permission ({closing(place)})"
            )

"""Python, torch's build and the versions of everything else, against what the project says it needs."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from orchestrator.doctor.findings import Finding, ok, slow, wrong

DISTRIBUTION = "transition-sweeps"
LOCK = Path(__file__).parents[2] / "requirements.lock"
"""Every version the project is tested with; beside the package in a checkout, absent where only the package is."""
OLDEST, TESTED = (3, 11), (3, 11)
SHOWN = 4
"""Names in a line; the JSON has them all."""


def python() -> Finding:
    """The interpreter."""
    here = sys.version_info[:2]
    said = f"Python {platform.python_version()} ({sys.executable})"
    if here < OLDEST:
        return wrong(said, f"install Python {_dotted(OLDEST)} or newer")
    if here != TESTED:
        return slow(said, f"it should do; the project is tested with {_dotted(TESTED)}")
    return ok(said, version=platform.python_version())


def torch_build() -> Finding:
    """Whether torch can be imported, and what it was built for."""
    import torch

    built = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "for the CPU alone"
    said = f"torch {torch.__version__}, built {built}"
    figures = {"version": torch.__version__, "cuda": torch.version.cuda}
    if torch.version.cuda and not torch.cuda.is_available():
        return slow(
            f"{said}; it finds no GPU",
            "where there is one, look at the driver (nvidia-smi); where there is none, nothing is lost but disk",
            **figures,
        )
    return ok(said, **figures)


def versions() -> Finding:
    """Every package the project needs, within its range; and how far the versions are those it is tested with."""
    here = installed()
    if DISTRIBUTION not in here:
        return wrong(f"{DISTRIBUTION} itself is not installed here", "run make install, or pip install -e .")
    broken = unmet(metadata.requires(DISTRIBUTION) or [], here)
    figures: dict[str, object] = {"unmet": broken}
    if broken:
        todo = "run make install, or pip install -e . in the environment you use"
        return wrong(f"missing or too old or new: {_some(broken)}", todo, **figures)
    if not LOCK.is_file():
        return ok("every package is within the range the project names", **figures)
    other = differing(LOCK.read_text(encoding="utf-8"), here)
    figures["differing"] = other
    if other:
        return slow(
            f"all within range, but {len(other)} are not the versions of requirements.lock: {_some(other)}",
            "it should do; make install takes exactly the tested ones",
            **figures,
        )
    return ok("every package is the version of requirements.lock", **figures)


def installed() -> dict[str, str]:
    """The distributions of this environment by canonical name."""
    return {canonicalize_name(each.metadata["Name"]): each.version for each in metadata.distributions()}


def unmet(requirements: list[str], here: Mapping[str, str]) -> list[str]:
    """What of these requirements (PEP 508; those of extras do not count) is not met, in words."""
    found = []
    for each in map(Requirement, requirements):
        if each.marker is not None and not each.marker.evaluate({"extra": ""}):
            continue
        version = here.get(canonicalize_name(each.name))
        if version is None:
            found.append(f"{each.name} is missing")
        elif not each.specifier.contains(version, prereleases=True):
            found.append(f"{each.name} {version} is not {each.specifier}")
    return found


def differing(lock: str, here: Mapping[str, str]) -> list[str]:
    """The installed distributions whose version is not the one a lock file names; local parts (+cpu) do not count."""
    found = []
    for name, wanted in re.findall(r"^([\w.-]+)==([^\s;]+)$", lock, re.MULTILINE):
        version = here.get(canonicalize_name(name))
        if version is not None and Version(version).public != Version(wanted).public:
            found.append(f"{name} {version} (tested: {wanted})")
    return found


def _some(names: list[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
